//! What the wheel, the task and the handle of a job share.
//!
//! The wheel's entry has a reference to it as its waker: the driver wakes it when the job is due, or the wheel has
//! ended. All code of a user's, futures, schedules, outputs and wakers, is run and dropped outside the lock.

mod handled;

use std::mem;
use std::sync::Arc;
use std::task::Wake;
use std::time::Duration;

use tokio::runtime::Handle;

use super::error::JobError;
use super::pending_run::PendingRun;
use super::run::Run;
use super::schedule::Schedule;
use super::stage::{Ended, Inner, Order, Stage};
use super::state::JobState;
use super::when::When;
use super::work::{Next, Work};
use crate::error::Error;
use crate::shard::ShardRef;
use crate::sync::{ShortLock, ShortLockGuard};
use crate::timing_wheel::TimingWheel;
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
        if let Some(due_work) = record.arm(wheel, when, work)? {
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

    /// Puts a new job into the wheel. One that is due is given back, to be spawned by the caller, if that is on the
    /// wheel's runtime; elsewhere only the driver can do it. Runs no code of a user's.
    pub(super) fn arm(
        self: &Arc<Self>,
        wheel: &TimingWheel,
        when: When,
        work: W,
    ) -> Result<Option<W>, (Error, W)> {
        if when.has_come() && wheel.is_on_this_runtime() {
            return if self.shard.has_ended() { Err((Error::shutdown(), work)) } else { Ok(Some(work)) };
        }
        // Held until the key is known: the driver may be here before.
        let mut inner = self.lock();
        match self.register(when) {
            Ok((due, key)) => {
                inner.stage = Stage::Pending { work, due, key };
                Ok(None)
            }
            Err(error) => Err((error, work)),
        }
    }

    /// Adds an entry, of a job that is due a little later if need be.
    fn register(self: &Arc<Self>, mut when: When) -> Result<(Nanos, Key), Error> {
        loop {
            if when.has_come() {
                when.due = when.now.after(self.soon());
            }
            // `None` is for what has come meanwhile.
            if let Some(key) = self.shard.register(when.now, when.due, self.clone().into())? {
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
        drop(inner);
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
                match self.register(when) {
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

    /// Goes over to another schedule, at once if the job is pending. Tells whether that was in time: the job has one,
    /// is not over, and there is a place for it.
    pub(super) fn set_schedule(self: &Arc<Self>, schedule: Box<dyn Schedule>) -> bool {
        // Then the schedule is not asked.
        if self.lock().state().is_over() {
            return false;
        }
        let Some(mut change) = W::change_to(schedule, || PendingRun::of(self)) else { return false };
        let mut inner = self.lock();
        match &mut inner.stage {
            Stage::Running(order @ (Order::None | Order::Change(_))) => {
                let before = mem::replace(order, Order::Change(change));
                drop(inner);
                drop(before);
                true
            }
            Stage::Pending { work, due, key } => {
                let (from, entry) = (*due, *key);
                let next = work.change(&mut change);
                let to = next.as_ref().ok().copied();
                let moved = match next {
                    Ok(to) => self
                        .move_to(entry, from, When { due: to, now: self.shard.clock().now() })
                        .map_err(|error| Err(JobError::because(error))),
                    Err(output) => Err(Ok(output)),
                };
                match moved {
                    Ok(moved) => {
                        (*due, *key) = moved;
                        drop(inner);
                        drop(change);
                        true
                    }
                    Err(result) => {
                        let is_in_time = result.is_ok();
                        let waker = self.shard.cancel(entry, from);
                        let ended = self.end(inner, result, to);
                        drop((waker, ended, change));
                        is_in_time
                    }
                }
            }
            _ => false,
        }
    }

    /// Moves the entry of a pending job, which keeps its place, or adds another if the driver has taken it out.
    fn move_to(self: &Arc<Self>, key: Key, from: Nanos, when: When) -> Result<(Nanos, Key), Error> {
        match self.shard.put_off(key, from, when.due, when.now, self.soon()) {
            Some(due) => Ok((due, key)),
            None => self.register(when),
        }
    }

    fn soon(&self) -> Duration {
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
        if let Stage::Pending { work, .. } = mem::replace(&mut inner.stage, Stage::Running(Order::None)) {
            drop(inner);
            runtime.spawn(Run::new(self, work));
        }
    }
}
