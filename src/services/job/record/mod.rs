//! What the wheel, the task and the handle of a job share.
//!
//! The wheel's entry has a reference to it as its waker: the driver wakes it when the job is due, or the wheel has
//! ended. All code of a user's, futures, schedules, outputs and wakers, is run and dropped outside the lock.

mod change;
mod handled;
mod place;

use std::mem;
use std::sync::Arc;
use std::task::Wake;
use std::time::Duration;

use tokio::runtime::Handle;

use super::error::JobError;
use super::pending_run::PendingRun;
use super::place::Place;
use super::run::Run;
use super::stage::{Ended, Inner, Order, Stage};
use super::state::JobState;
use super::when::When;
use super::work::{Next, Work};
use crate::engine::shard::ShardRef;
use crate::error::Error;
use crate::handle::timing_wheel::TimingWheel;
use crate::platform::sync::{ShortLock, ShortLockGuard};
use crate::wheel::{Key, Nanos};

/// How long a job that is due waits where only the driver can spawn it, at the most: or a tick, if that is shorter.
const SOON: Duration = Duration::from_millis(1);

pub(super) struct Record<W: Work, O: Owner = ()> {
    shard: ShardRef,
    owner: O,
    inner: ShortLock<Inner<W>>,
}

/// Who keeps a job beside its handle, or instead of one.
pub(super) trait Owner: Send + Sync + 'static {
    /// The job, whose record is at `address`, has run to its end.
    fn over(&self, address: *const ());
}

impl Owner for () {
    fn over(&self, _address: *const ()) {}
}

/// How a job goes on that is to run again.
pub(super) enum GoOn<W: Work> {
    /// It is in the wheel, or over.
    Later,
    /// It is due.
    Now(W),
    /// This was asked of it first.
    Changed(W, W::Change),
}

impl<W: Work> Record<W> {
    /// A job that runs then.
    pub(super) fn launch(wheel: &TimingWheel, when: When, mut work: W) -> Result<Arc<Self>, (Error, W)> {
        let record = Self::owned_by((), wheel);
        work.attach(|| PendingRun::of(&record));
        if let Some(due_work) = record.arm(wheel, when, work, false)? {
            record.spawn(due_work);
        }
        Ok(record)
    }

    /// As [`launch`](Self::launch), but a job that is refused is over.
    pub(super) fn launch_or_tell(wheel: &TimingWheel, when: When, work: W) -> Arc<Self> {
        Self::launch(wheel, when, work)
            .unwrap_or_else(|(error, _work)| Self::over(wheel, Err(JobError::because(error))))
    }

    /// A job that is over before it began.
    pub(super) fn over(wheel: &TimingWheel, result: Result<W::Output, JobError>) -> Arc<Self> {
        Arc::new(Self::new(wheel, (), Stage::Over(result)))
    }
}

impl<W: Work, O: Owner> Record<W, O> {
    /// For a job that is still to be [armed](Self::arm).
    pub(super) fn owned_by(owner: O, wheel: &TimingWheel) -> Arc<Self> {
        Arc::new(Self::new(wheel, owner, Stage::Running(Order::None)))
    }

    fn new(wheel: &TimingWheel, owner: O, stage: Stage<W>) -> Self {
        Self { shard: ShardRef::new(wheel.shard()), owner, inner: ShortLock::new(Inner::new(stage)) }
    }

    pub(super) const fn owner(&self) -> &O {
        &self.owner
    }

    /// Spawns a job that was due when it was armed.
    pub(super) fn spawn(self: &Arc<Self>, due_work: W) {
        tokio::spawn(Run::new(self.clone(), due_work));
    }

    /// Puts a new job into the wheel, in the place of another if it has that. One that is due is given back, to be spawned
    /// by the caller, if that is on the wheel's runtime; elsewhere only the driver can do it. Runs no code of a user's.
    pub(super) fn arm(
        self: &Arc<Self>,
        wheel: &TimingWheel,
        when: When,
        work: W,
        has_place: bool,
    ) -> Result<Option<W>, (Error, W)> {
        self.keep_place();
        if when.has_come() && wheel.is_on_this_runtime() {
            return match self.begin_without_entry(has_place) {
                Ok(()) => Ok(Some(work)),
                Err(error) => Err((error, work)),
            };
        }
        // Held until the key is known: the driver may be here before.
        let mut inner = self.lock();
        let armed =
            self.see_to_place(has_place).and_then(|in_place| Ok((in_place, self.register(in_place, when)?)));
        match armed {
            Ok((in_place, (due, key))) => {
                inner.stage = Stage::Pending { work, due, key };
                inner.place.set_taken(in_place);
                Ok(None)
            }
            Err(error) => Err((error, work)),
        }
    }

    /// Adds an entry, of a job that is due a little later if need be: in the job's place, or in one that it takes.
    fn register(self: &Arc<Self>, in_place: bool, mut when: When) -> Result<(Nanos, Key), Error> {
        loop {
            if when.has_come() {
                when.due = when.now.after(self.soon());
            }
            let waker = self.clone().into();
            let registered = if in_place {
                self.shard.register_in_place(when.now, when.due, waker)
            } else {
                self.shard.register(when.now, when.due, waker)
            };
            // `None` is for what has come meanwhile.
            if let Some(key) = registered? {
                return Ok((when.due, key));
            }
            // Of a wheel that has ended the clock is at the end of time, which no job is due after.
            if self.shard.has_ended() {
                return Err(Error::shutdown());
            }
            // The wheel's word counts: where its clock is paused, and this thread's is not, that may be far ahead.
            when.now = self.shard.clock().now().max(self.shard.elapsed());
        }
    }

    fn soon(&self) -> Duration {
        SOON.min(self.shard.resolution().tick())
    }

    fn lock(&self) -> ShortLockGuard<'_, Inner<W>> {
        self.inner.lock()
    }

    /// For the task: how it ended.
    pub(super) fn finish(&self, result: Result<W::Output, JobError>) {
        if result.as_ref().is_err_and(JobError::is_panic) {
            self.shard.count_panic();
        }
        let inner = self.lock();
        // A panic on the way out, when it had been cancelled.
        if !inner.state().is_over() {
            drop(self.end(inner, result, None));
        }
    }

    /// Ends a job that has run. What is returned is still to be dropped.
    fn end(
        &self,
        mut inner: ShortLockGuard<'_, Inner<W>>,
        result: Result<W::Output, JobError>,
        due: Option<Nanos>,
    ) -> Ended<W> {
        let ended = inner.end(result, due);
        let state = inner.state();
        let had_place = inner.place.leave();
        drop(inner);
        if had_place {
            self.shard.give_place_back();
        }
        if state != JobState::CouldNotRun {
            self.owner.over(std::ptr::from_ref(self).cast());
        }
        ended
    }

    /// For the task: its run is over. Looks at the orders in the same moment as it ends the job or puts it back, so
    /// that none is lost.
    pub(super) fn go_on(self: &Arc<Self>, work: W, next: Next<W>) -> GoOn<W> {
        let mut inner = self.lock();
        let order = match &mut inner.stage {
            Stage::Running(order) => mem::replace(order, Order::None),
            _ => unreachable!("only its task ends a running job"),
        };
        let due = next.as_ref().ok().copied();
        let result = match (order, next) {
            (Order::Change(change), _) => return GoOn::Changed(work, change),
            (Order::Stop, _) => Err(JobError::cancelled()),
            (Order::None, Err(output)) => Ok(output),
            (Order::None, Ok(_)) if self.shard.has_ended() => Err(JobError::because(Error::shutdown())),
            (Order::None, Ok(due)) => {
                let when = When { due, now: self.shard.clock().now() };
                if when.has_come() {
                    return GoOn::Now(work);
                }
                match self.register_again(&mut inner.place, when) {
                    Ok((due, key)) => {
                        inner.stage = Stage::Pending { work, due, key };
                        return GoOn::Later;
                    }
                    Err(error) => Err(JobError::because(error)),
                }
            }
        };
        let ended = self.end(inner, result, due);
        drop(work);
        drop(ended);
        GoOn::Later
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
        if let Stage::Pending { work, .. } = mem::replace(&mut inner.stage, Stage::Running(Order::None)) {
            drop(inner);
            runtime.spawn(Run::new(self, work));
        }
    }
}
