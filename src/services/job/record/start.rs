//! The start of a job: put into the wheel, woken when it is due, and spawned.

use std::mem;
use std::sync::Arc;
use std::task::Wake;
use std::time::Duration;

use tokio::runtime::Handle;

use super::{Owner, Record};
use crate::error::Error;
use crate::handle::timing_wheel::TimingWheel;
use crate::services::job::error::JobError;
use crate::services::job::pending_run::PendingRun;
use crate::services::job::permit_state::KeptPermit;
use crate::services::job::stage::Stage;
use crate::services::job::task::Task;
use crate::services::job::when::When;
use crate::services::job::work::Work;
use crate::wheel::{Key, Nanos};

/// How long a job that is due waits where only the driver can spawn it, at the most: or a tick, if that is shorter.
const SOON: Duration = Duration::from_millis(1);

impl<W: Work> Record<W> {
    /// A job that runs then.
    pub(in crate::services::job) fn launch(
        wheel: &TimingWheel,
        when: When,
        mut work: W,
    ) -> Result<Arc<Self>, (Error, W)> {
        let record = Self::owned_by((), wheel);
        work.attach(|| PendingRun::of(&record));
        if let Some(due_work) = record.arm(wheel, when, work, false)? {
            record.spawn(due_work);
        }
        Ok(record)
    }

    /// As [`launch`](Self::launch), but a job that is refused is over.
    pub(in crate::services::job) fn launch_or_tell(wheel: &TimingWheel, when: When, work: W) -> Arc<Self> {
        Self::launch(wheel, when, work)
            .unwrap_or_else(|(error, _work)| Self::over(wheel, Err(JobError::because(error))))
    }

    /// A job that is over before it began.
    pub(in crate::services::job) fn over(
        wheel: &TimingWheel,
        result: Result<W::Output, JobError>,
    ) -> Arc<Self> {
        Arc::new(Self::new(wheel, (), Stage::Over(result)))
    }
}

impl<W: Work, O: Owner> Record<W, O> {
    /// Spawns a job that was due when it was armed.
    pub(in crate::services::job) fn spawn(self: &Arc<Self>, due_work: W) {
        tokio::spawn(Task::new(self.clone(), due_work));
    }

    /// Puts a new job into the wheel, with the permit of another if it has that. One that is due is given back, to be spawned
    /// by the caller, if that is on the wheel's runtime; elsewhere only the driver can do it. Runs no code of a user's.
    pub(in crate::services::job) fn arm(
        self: &Arc<Self>,
        wheel: &TimingWheel,
        when: When,
        mut work: W,
        has_permit: bool,
    ) -> Result<Option<W>, (Error, W)> {
        self.keep_permit();
        if when.has_come() && wheel.is_on_this_runtime() {
            return match self.begin_without_entry(has_permit) {
                Ok(()) => {
                    self.lock().stage = Stage::running();
                    Ok(Some(work))
                }
                Err(error) => Err((error, work)),
            };
        }
        // Held until the key is known: the driver may be here before.
        let mut inner = self.lock();
        let armed = self
            .see_to_permit(has_permit)
            .and_then(|has_permit| Ok((has_permit, self.register(has_permit, when)?)));
        match armed {
            Ok((has_permit, (due, key))) => {
                work.note_wait(due);
                inner.stage = Stage::Pending { work, due, key };
                inner.permit.set_taken(has_permit);
                Ok(None)
            }
            Err(error) => Err((error, work)),
        }
    }

    /// Adds an entry, of a job that is due a little later if need be: with the job's permit, or with one that it takes.
    pub(super) fn register(
        self: &Arc<Self>,
        has_permit: bool,
        mut when: When,
    ) -> Result<(Nanos, Key), Error> {
        loop {
            let rounded = if when.has_come() {
                when.due = when.now.after(self.soon());
                None
            } else {
                when.rounded(self.shard.resolution())
            };
            let due = rounded.unwrap_or(when.due);
            let waker = self.clone().into();
            let registered = match (has_permit, rounded) {
                (true, grid) => self.shard.register_with_permit(when.now, due, grid.is_some(), waker),
                (false, None) => self.shard.register(when.now, due, waker),
                (false, Some(_)) => self.shard.register_rounded(when.now, due, waker),
            };
            // `None` is for what has come meanwhile.
            if let Some(key) = registered? {
                return Ok((due, key));
            }
            // Of a wheel that has ended the clock is at the end of time, which no job is due after.
            if self.shard.has_ended() {
                return Err(Error::shutdown());
            }
            // The wheel's word counts: where its clock is paused, and this thread's is not, that may be far ahead.
            when.now = self.shard.clock().now().max(self.shard.elapsed());
        }
    }

    pub(super) fn soon(&self) -> Duration {
        SOON.min(self.shard.resolution().tick())
    }
}

/// By the driver: the job is due, or the wheel has ended.
impl<W: Work, O: Owner> Wake for Record<W, O> {
    fn wake(self: Arc<Self>) {
        // The driver runs on the wheel's runtime. What ends the wheel may come from anywhere.
        let runtime = if self.shard.has_ended() { None } else { Handle::try_current().ok() };
        let mut inner = self.lock();
        let due = match inner.stage {
            // It may have been put off while its old entry was on the way here.
            Stage::Pending { due, .. } if self.shard.has_reached(due) => due,
            _ => return,
        };
        let Some(runtime) = runtime else {
            let ended = inner.end(Err(JobError::because(Error::shutdown())), Some(due));
            drop(inner);
            return drop(ended);
        };
        if let Stage::Pending { work, .. } = mem::replace(&mut inner.stage, Stage::running()) {
            drop(inner);
            runtime.spawn(Task::new(self, work));
        }
    }
}
