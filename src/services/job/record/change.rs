//! What is changed of a job that stays: its schedule, and when it is due.

use std::mem;
use std::sync::Arc;

use tokio::time::Instant;

use super::{Guard, Owner, Record};
use crate::error::Error;
use crate::services::job::error::JobError;
use crate::services::job::pending_run::{Movable, PendingRun, Replanned};
use crate::services::job::permit_state::KeptPermit;
use crate::services::job::schedule::{Previous, Schedule};
use crate::services::job::stage::{Inner, Order, Stage};
use crate::services::job::when::When;
use crate::services::job::work::{SetBy, Work};
use crate::timers::tolerance::Slack;
use crate::wheel::{Key, Nanos};

impl<W: Work, O: Owner> Record<W, O> {
    /// Goes over to another schedule, at once if the job is pending. Tells whether that was in time: the job has one,
    /// is not over, and there is a permit for it.
    pub(in crate::services::job) fn set_schedule(self: &Arc<Self>, schedule: Box<dyn Schedule>) -> bool {
        // Then the schedule is not asked.
        if self.lock().state().is_over() {
            return false;
        }
        let Some(change) = self.change_to(schedule) else { return false };
        let mut inner = self.lock();
        match &mut inner.stage {
            Stage::Running { order: order @ (Order::None | Order::Move(_) | Order::Change(_)), .. } => {
                let before = mem::replace(order, Order::Change(change));
                drop(inner);
                drop(before);
                true
            }
            Stage::Pending { .. } => self.change_pending(inner, change),
            _ => false,
        }
    }

    /// Asks a schedule for its first run, if the job is one that has a schedule.
    fn change_to(self: &Arc<Self>, schedule: Box<dyn Schedule>) -> Option<W::Change> {
        let (now, resolution) = (self.shard.clock().now_as_instant(), self.shard.resolution());
        W::change_to(schedule, now, resolution, || PendingRun::of(self))
    }

    /// Makes a change of a job that has been found pending. Tells whether the job waits by it, or is over by it.
    fn change_pending(self: &Arc<Self>, mut inner: Guard<'_, W, O>, mut change: W::Change) -> bool {
        let Inner { stage: Stage::Pending { work, due, key }, permit, .. } = &mut *inner else {
            return false;
        };
        let (from, entry) = (*due, *key);
        let next = work.change(&mut change);
        let to = next.as_ref().ok().copied();
        let slack = work.slack().unwrap_or(Slack::None);
        let moved = match next {
            Ok(to) => self
                .move_to(permit, entry, from, When { due: to, now: self.shard.clock().now(), slack })
                .map_err(|error| Err(JobError::because(error))),
            Err(output) => Err(Ok(output)),
        };
        match moved {
            Ok(moved) => {
                work.note_wait(moved.0);
                (*due, *key) = moved;
                drop(inner);
                drop(change);
                true
            }
            Err(result) => {
                let is_in_time = result.is_ok();
                // Its permit went with the entry, unless the driver has that.
                let waker = self.shard.cancel(entry, from);
                if waker.is_some() {
                    inner.permit.leave();
                }
                let ended = self.end(inner, result, to);
                drop((waker, ended, change));
                is_in_time
            }
        }
    }

    /// Moves the next run, and returns whether it is due then. A job that repeats may be in a run.
    pub(in crate::services::job) fn reset(self: &Arc<Self>, when: When) -> bool {
        let mut inner = self.lock();
        match &mut inner.stage {
            Stage::Running { order, .. } if W::REPEATS => match order {
                Order::None | Order::Move(_) => *order = Order::Move(when.due),
                Order::Change(change) => W::change_first(change, self.shard.clock().instant(when.due)),
                Order::Stop | Order::Abort => return false,
            },
            Stage::Pending { .. } => return self.reset_pending(&mut inner, when, SetBy::User),
            _ => return false,
        }
        true
    }

    /// Lets a pending job be late.
    pub(in crate::services::job) fn let_be_late(self: &Arc<Self>, slack: Slack) {
        let mut inner = self.lock();
        if let Stage::Pending { due, .. } = inner.stage {
            let when = When { due, now: self.shard.clock().now(), slack };
            if !when.has_come() {
                self.reset_pending(&mut inner, when, SetBy::User);
            }
        }
    }

    fn reset_pending(self: &Arc<Self>, inner: &mut Inner<W, O::Waiter>, when: When, by: SetBy) -> bool {
        let Inner { stage: Stage::Pending { work, due, key }, permit, .. } = inner else { return false };
        let when = when.within(work.slack().unwrap_or(when.slack));
        // If there is no permit for another entry, the driver is on its way with the old one, which counts then.
        let Ok(moved) = self.move_to(permit, *key, *due, when) else { return false };
        (*due, *key) = moved;
        // A schedule goes on from the time that was asked for, also if the run may be a little late.
        let is_rounded = when.rounded(self.shard.resolution()) == Some(moved.0);
        work.note_due(if is_rounded { when.due } else { moved.0 }, by);
        work.note_wait(moved.0);
        true
    }

    /// Moves the entry of a pending job, which keeps its permit, or adds another if the driver has taken it out.
    fn move_to(
        self: &Arc<Self>,
        permit: &mut W::KeptPermit,
        key: Key,
        from: Nanos,
        when: When,
    ) -> Result<(Nanos, Key), Error> {
        let rounded = if when.has_come() { None } else { when.rounded(self.shard.resolution()) };
        let moved = rounded
            .and_then(|to| self.shard.move_rounded(key, to))
            .or_else(|| self.shard.move_or_soon(key, from, when.due, when.now, self.soon()));
        match moved {
            Some(due) => Ok((due, key)),
            None => self.register_again(permit, when),
        }
    }
}

/// By a schedule.
impl<W: Work, O: Owner> Movable for Record<W, O> {
    fn move_run(self: Arc<Self>, deadline: Instant) -> bool {
        let when = When::at(deadline, self.shard.clock());
        self.reset_pending(&mut self.lock(), when, SetBy::Schedule)
    }

    fn replan(self: Arc<Self>, next: Option<Instant>) -> Replanned {
        let when = next.map(|deadline| When::at(deadline, self.shard.clock()));
        // Prepared outside the lock, as it is dropped there.
        let end = if when.is_none() { self.change_to(Box::new(|_: Previous| None)) } else { None };
        // Held from the look to the move: no reset of the user's comes in between and is undone.
        let mut inner = self.lock();
        match &inner.stage {
            Stage::Pending { work, .. } if work.set_by() == SetBy::User => return Replanned::MovedByUser,
            Stage::Pending { .. } => {}
            _ => return Replanned::NotPending,
        }
        let is_done = match (when, end) {
            (Some(when), _) => self.reset_pending(&mut inner, when, SetBy::Schedule),
            (None, Some(end)) => self.change_pending(inner, end),
            (None, None) => false,
        };
        if is_done { Replanned::Done } else { Replanned::NotPending }
    }

    fn end_schedule(self: Arc<Self>) -> bool {
        self.set_schedule(Box::new(|_: Previous| None))
    }
}
