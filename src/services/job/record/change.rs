//! What is changed of a job that stays: its schedule, and when it is due.

use std::mem;
use std::sync::Arc;

use super::{Owner, Record};
use crate::error::Error;
use crate::services::job::error::JobError;
use crate::services::job::pending_run::PendingRun;
use crate::services::job::place::Place;
use crate::services::job::schedule::Schedule;
use crate::services::job::stage::{Inner, Order, Stage};
use crate::services::job::when::When;
use crate::services::job::work::Work;
use crate::wheel::{Key, Nanos};

impl<W: Work, O: Owner> Record<W, O> {
    /// Goes over to another schedule, at once if the job is pending. Tells whether that was in time: the job has one,
    /// is not over, and there is a place for it.
    pub(in crate::services::job) fn set_schedule(self: &Arc<Self>, schedule: Box<dyn Schedule>) -> bool {
        // Then the schedule is not asked.
        if self.lock().state().is_over() {
            return false;
        }
        let now = self.shard.clock().now_as_instant();
        let Some(mut change) = W::change_to(schedule, now, || PendingRun::of(self)) else { return false };
        let mut inner = self.lock();
        let Inner { stage, place, .. } = &mut *inner;
        match stage {
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
                        .move_to(place, entry, from, When { due: to, now: self.shard.clock().now() })
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
                        // Its place went with the entry, unless the driver has that.
                        let waker = self.shard.cancel(entry, from);
                        if waker.is_some() {
                            inner.place.leave();
                        }
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
    pub(super) fn move_to(
        self: &Arc<Self>,
        place: &mut W::Place,
        key: Key,
        from: Nanos,
        when: When,
    ) -> Result<(Nanos, Key), Error> {
        match self.shard.put_off(key, from, when.due, when.now, self.soon()) {
            Some(due) => Ok((due, key)),
            None => self.register_again(place, when),
        }
    }
}
