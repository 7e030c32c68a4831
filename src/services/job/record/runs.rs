//! What the task of a job tells of its runs.

use std::mem;
use std::sync::Arc;
use std::task::Waker;

use super::{Owner, Record};
use crate::error::Error;
use crate::services::job::error::JobError;
use crate::services::job::permit_state::KeptPermit;
use crate::services::job::stage::{Order, Stage};
use crate::services::job::task::{Account, GoOn};
use crate::services::job::when::When;
use crate::services::job::work::{Next, SetBy, Work};
use crate::timers::tolerance::Slack;

impl<W: Work, O: Owner> Account<W> for Record<W, O> {
    fn goes_on(&self, has_begun: bool, task: &Waker) -> bool {
        let mut inner = self.lock();
        let Stage::Running { order, task: known } = &mut inner.stage else { return true };
        // Whoever cancels a job that repeats is told that no further run begins.
        if matches!(order, Order::Abort) || (matches!(order, Order::Stop) && !has_begun) {
            return false;
        }
        // tokio's, and so neither cloned nor dropped by code of a user's.
        if !known.as_ref().is_some_and(|known| known.will_wake(task)) {
            *known = Some(task.clone());
        }
        true
    }

    fn finish(&self, result: Result<W::Output, JobError>) {
        if result.as_ref().is_err_and(JobError::is_panic) {
            self.shard.count_panic();
        }
        let inner = self.lock();
        // A panic on the way out, when it had been cancelled.
        if !inner.state().is_over() {
            drop(self.end(inner, result, None));
        }
    }

    fn go_on(self: &Arc<Self>, mut work: W, next: Next<W>) -> GoOn<W> {
        let mut inner = self.lock();
        let order = match &mut inner.stage {
            Stage::Running { order, .. } => mem::replace(order, Order::None),
            _ => unreachable!("only its task ends a running job"),
        };
        let next = match order {
            Order::Move(due) => {
                work.note_due(due, SetBy::User);
                Ok(due)
            }
            _ => next,
        };
        let due = next.as_ref().ok().copied();
        let result = match (order, next) {
            (Order::Change(change), _) => return GoOn::Changed(work, change),
            (Order::Stop | Order::Abort, _) => Err(JobError::cancelled()),
            (Order::None | Order::Move(_), Err(output)) => Ok(output),
            (Order::None | Order::Move(_), Ok(_)) if self.shard.has_ended() => {
                Err(JobError::because(Error::shutdown()))
            }
            // It is replaced, and about to be cancelled.
            (Order::None | Order::Move(_), Ok(_)) if inner.permit.is_handed_over() => {
                Err(JobError::cancelled())
            }
            (Order::None | Order::Move(_), Ok(due)) => {
                let slack = work.slack().unwrap_or(Slack::None);
                let when = When { due, now: self.shard.clock().now(), slack };
                if when.has_come() {
                    return GoOn::Now(work);
                }
                match self.register_again(&mut inner.permit, when) {
                    Ok((due, key)) => {
                        work.note_wait(due);
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
