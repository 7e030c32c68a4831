//! What the handle of a job does with its record.

use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::{Owner, Record};
use crate::platform::clock::Clock;
use crate::platform::contain::contained;
use crate::services::job::error::JobError;
use crate::services::job::handle::Handled;
use crate::services::job::place::Place;
use crate::services::job::stage::{Inner, Order, Stage};
use crate::services::job::state::JobInfo;
use crate::services::job::when::When;
use crate::services::job::work::Work;

impl<W: Work, O: Owner> Handled<W::Output> for Record<W, O> {
    fn info(&self) -> JobInfo {
        self.lock().info(self.shard.clock())
    }

    fn cancel(&self) -> JobInfo {
        let mut inner = self.lock();
        let found = inner.info(self.shard.clock());
        match &mut inner.stage {
            Stage::Pending { due, key, .. } => {
                let (due, key) = (*due, *key);
                let ended = inner.end(Err(JobError::cancelled()), None);
                let has_place = inner.place.leave();
                drop(inner);
                // At once, and not later with others, as what a `Sleep` leaves: it is memory.
                let waker = self.shard.cancel(key, due);
                // Its place went with the entry, unless the driver has that.
                if has_place && waker.is_none() {
                    self.shard.give_place_back();
                }
                drop(waker);
                drop(ended);
            }
            Stage::Running(order) => {
                let before = mem::replace(order, Order::Stop);
                drop(inner);
                drop(before);
            }
            _ => {}
        }
        found
    }

    fn clock(&self) -> &Clock {
        self.shard.clock()
    }

    fn reset(self: Arc<Self>, when: When) -> bool {
        let mut inner = self.lock();
        let Inner { stage, place, .. } = &mut *inner;
        let Stage::Pending { work, due, key } = stage else { return false };
        // If there is no place for another entry, the driver is on its way with the old one, which counts then.
        let Ok(moved) = self.move_to(place, *key, *due, when) else { return false };
        (*due, *key) = moved;
        work.note_due(moved.0);
        true
    }

    fn forget_waiter(&self) {
        let waiter = self.lock().waiter.take();
        contained(|| drop(waiter));
    }

    fn poll_result(&self, cx: &mut Context<'_>) -> Poll<Result<W::Output, JobError>> {
        let waiter = cx.waker().clone();
        let mut inner = self.lock();
        let state = inner.state();
        if !state.is_over() {
            let before = inner.waiter.replace(waiter);
            drop(inner);
            drop(before);
            return Poll::Pending;
        }
        match mem::replace(&mut inner.stage, Stage::Told(state)) {
            Stage::Over(result) => Poll::Ready(result),
            Stage::CouldNotRun(reason, _) => Poll::Ready(Err(JobError::because(reason))),
            _ => {
                drop(inner);
                panic!("a job's handle was polled that has given its result")
            }
        }
    }
}
