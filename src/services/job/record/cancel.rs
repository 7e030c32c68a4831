//! The end of a job by its handle or its owner. The record's lock decides between that and its start.

use std::mem;

use super::{Guard, Owner, Record};
use crate::platform::catch_panic::contained;
use crate::services::job::error::JobError;
use crate::services::job::handle::Found;
use crate::services::job::info::JobState;
use crate::services::job::permit_state::KeptPermit;
use crate::services::job::stage::{Ended, Order, Stage};
use crate::services::job::work::{Unrun, Work};

impl<W: Work, O: Owner> Record<W, O> {
    /// Cancels a pending job. No run comes after one that is going on.
    pub(in crate::services::job) fn cancel(&self) -> Found {
        self.cancel_by(|inner| drop(self.end_pending(inner)))
    }

    /// As [`cancel`](Self::cancel), and keeps what a pending job would have run, to be [taken](Self::take_held) or
    /// [dropped](Self::drop_held).
    pub(in crate::services::job) fn cancel_and_hold(&self) -> Found {
        self.cancel_by(|inner| {
            let Ended { told, stage } = self.end_pending(inner);
            if let Stage::Pending { work, .. } = stage {
                self.lock().stage = Stage::Held(work);
            }
            drop(told);
        })
    }

    fn cancel_by(&self, end: impl FnOnce(Guard<'_, W, O>)) -> Found {
        let mut inner = self.lock();
        let info = inner.info(self.shard.clock());
        let is_changed = match &mut inner.stage {
            Stage::Pending { .. } => {
                end(inner);
                true
            }
            Stage::Running { order: order @ (Order::None | Order::Move(_) | Order::Change(_)), .. } => {
                let before = mem::replace(order, Order::Stop);
                drop(inner);
                drop(before);
                W::REPEATS
            }
            _ => false,
        };
        Found { info, is_changed }
    }

    /// Cancels a job that has been found pending. What is returned is still to be dropped.
    fn end_pending(&self, mut inner: Guard<'_, W, O>) -> Ended<W, O::Waiter> {
        let ended = inner.end(Err(JobError::cancelled()), None);
        let has_permit = inner.permit.leave();
        drop(inner);
        if let Stage::Pending { due, key, .. } = ended.stage {
            // At once, and not later with others, as what a `Sleep` leaves: it is memory.
            let waker = self.shard.cancel(key, due);
            // Its permit went with the entry, unless the driver has that.
            if has_permit && waker.is_none() {
                self.shard.give_permit_back();
            }
        }
        ended
    }

    /// As [`cancel`](Self::cancel), and ends a run that is going on.
    pub(in crate::services::job) fn abort(&self) -> Found {
        let mut inner = self.lock();
        let info = inner.info(self.shard.clock());
        let is_changed = match &mut inner.stage {
            Stage::Pending { .. } => {
                drop(self.end_pending(inner));
                true
            }
            Stage::Running { order, task } if !matches!(order, Order::Abort) => {
                let before = mem::replace(order, Order::Abort);
                let task = task.take();
                drop(inner);
                if let Some(task) = task {
                    task.wake();
                }
                drop(before);
                true
            }
            _ => false,
        };
        Found { info, is_changed }
    }

    /// Cancels a pending job, and gives back what it would have run.
    pub(in crate::services::job) fn take(&self) -> Option<Unrun<W::Output>> {
        let inner = self.lock();
        if inner.state() != JobState::Pending {
            return None;
        }
        let Ended { told, stage } = self.end_pending(inner);
        drop(told);
        match stage {
            Stage::Pending { work, .. } => Some(work.give_back()),
            _ => unreachable!("it was pending"),
        }
    }

    /// What a job that was stopped would have run.
    pub(in crate::services::job) fn take_held(&self) -> Option<Unrun<W::Output>> {
        match self.leave_held()? {
            Stage::Held(work) => Some(work.give_back()),
            _ => None,
        }
    }

    /// Drops what a job that was stopped would have run.
    pub(in crate::services::job) fn drop_held(&self) {
        let held = self.leave_held();
        contained(|| drop(held));
    }

    fn leave_held(&self) -> Option<Stage<W>> {
        let mut inner = self.lock();
        matches!(inner.stage, Stage::Held(_))
            .then(|| mem::replace(&mut inner.stage, Stage::Told(JobState::Cancelled)))
    }
}
