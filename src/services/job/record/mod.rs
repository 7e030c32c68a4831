//! What the wheel, the task and the handle of a job share.
//!
//! The wheel's entry has a reference to the record as its waker: the driver wakes it when the job is due, or the wheel
//! has ended. All code of a user's, futures, schedules, outputs and wakers, is run and dropped outside the lock.

mod cancel;
mod change;
mod for_handle;
mod join;
mod permit;
mod runs;
mod start;

use std::ptr;
use std::sync::Arc;

use super::error::JobError;
use super::info::{JobInfo, JobState};
use super::permit_state::KeptPermit;
use super::stage::{Ended, Inner, Stage};
use super::waiter::{Awaiting, Waiter};
use super::work::Work;
use crate::engine::shard::ShardRef;
use crate::handle::timing_wheel::TimingWheel;
use crate::platform::sync::{ShortLock, ShortLockGuard};
use crate::wheel::Nanos;

pub(super) struct Record<W: Work, O: Owner = ()> {
    shard: ShardRef,
    owner: O,
    inner: ShortLock<Inner<W, O::Waiter>>,
}

/// Who keeps a job beside its handle, or instead of one.
pub(super) trait Owner: Send + Sync + 'static {
    type Waiter: Waiter;

    /// The job, whose record is at `address`, has run to its end.
    fn over(&self, address: *const ());
}

/// The handle alone.
impl Owner for () {
    type Waiter = Awaiting;

    fn over(&self, _address: *const ()) {}
}

type Guard<'a, W, O> = ShortLockGuard<'a, Inner<W, <O as Owner>::Waiter>>;

impl<W: Work, O: Owner> Record<W, O> {
    /// For a job that is still to be [armed](Self::arm).
    pub(super) fn owned_by(owner: O, wheel: &TimingWheel) -> Arc<Self> {
        Arc::new(Self::new(wheel, owner, Stage::New))
    }

    fn new(wheel: &TimingWheel, owner: O, stage: Stage<W>) -> Self {
        Self { shard: ShardRef::new(wheel.shard()), owner, inner: ShortLock::new(Inner::new(stage)) }
    }

    pub(super) const fn owner(&self) -> &O {
        &self.owner
    }

    pub(super) fn info(&self) -> JobInfo {
        self.lock().info(self.shard.clock())
    }

    fn lock(&self) -> Guard<'_, W, O> {
        self.inner.lock()
    }

    /// Ends a job that has run. What is returned is still to be dropped.
    fn end(
        &self,
        mut inner: Guard<'_, W, O>,
        result: Result<W::Output, JobError>,
        due: Option<Nanos>,
    ) -> Ended<W, O::Waiter> {
        let ended = inner.end(result, due);
        let state = inner.state();
        let had_permit = inner.permit.leave();
        drop(inner);
        if had_permit {
            self.shard.give_permit_back();
        }
        if state != JobState::CouldNotRun {
            self.owner.over(ptr::from_ref(self).cast());
        }
        ended
    }
}
