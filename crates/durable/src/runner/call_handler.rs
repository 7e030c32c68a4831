//! Calling handlers: one batch of begun timers at a time.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use jiff::Timestamp;
use tokio::time::Instant;

use super::batch::{Batch, Called};
use super::live::{Attempt, Live};
use super::outcomes::{Outcome, Teller};
use super::{Command, Runner};
use crate::handler::{Handler, HandlerResult, Lost, Run, Started};
use crate::id::TimerId;
use crate::store::Stored;

/// How many calls go to the runtime together at the most: while its threads make them, the runner goes on.
const TOGETHER: usize = 256;

/// A handler that is to be called.
pub(super) struct Call {
    id: TimerId,
    /// The number of this call: an id alone may be called twice.
    number: u64,
    handler: Arc<Handler>,
    stored: Box<Stored>,
    late: Duration,
    #[cfg(feature = "postgres")]
    within: crate::handler::Within,
}

impl Runner {
    /// Its handler is to be called; the wall clock has shown `now`.
    pub(super) fn start(&mut self, stored: Box<Stored>, attempt: Attempt, now: Timestamp) {
        let id = attempt.timer.id();
        let late = Duration::try_from(now.duration_since(attempt.timer.due())).unwrap_or(Duration::ZERO);
        {
            let mut stats = self.shared.stats();
            stats.attempts += 1;
            stats.lateness.record(late);
        }
        self.called += 1;
        self.calls.push(Call {
            id,
            number: self.called,
            handler: attempt.handler.clone(),
            stored,
            late,
            #[cfg(feature = "postgres")]
            within: crate::handler::Within {
                timer: attempt.timer,
                series: attempt.series.as_deref().cloned(),
                schema: self.settings.schema.clone(),
                is_finished: Arc::clone(&attempt.is_finished),
            },
        });
        self.live.insert(id, Live::Running { attempt, call: self.called, abort: None });
        if self.calls.len() >= TOGETHER {
            self.make_calls();
        }
    }

    /// Hands the calls that have gathered to the runtime.
    pub(super) fn make_calls(&mut self) {
        if self.calls.is_empty() {
            return;
        }
        let called = Called {
            epoch: self.owner.epoch,
            lost: self.lost.subscribe(),
            good_until: self.good_until(),
            outcomes: Arc::clone(&self.outcomes),
        };
        Batch::start(std::mem::take(&mut self.calls), called);
    }

    /// A handler was not ready at once, and has a task of its own.
    pub(super) fn pends(&mut self, id: TimerId, number: u64, task: tokio::task::AbortHandle) {
        // It may have ended already, and its timer may have begun again.
        if let Some(Live::Running { call, abort, .. }) = self.live.get_mut(&id)
            && *call == number
        {
            if self.outcomes.is_aborting() {
                task.abort();
            }
            *abort = Some(task);
        }
    }
}

impl Call {
    /// Calls the handler, and asks once whether it is ready. One that is not gets a task of its own.
    pub(super) fn make(self, called: &Called, cx: &mut Context<'_>) {
        let Self { id, number, handler, stored, late, .. } = self;
        let mut teller = Teller::new(id, Arc::clone(&called.outcomes));
        if called.outcomes.is_aborting() {
            return;
        }
        // The process may have stood still since it was begun.
        if called.good_until.is_some_and(|until| Instant::now() >= until) {
            return teller.tell(Outcome::TooLate);
        }
        let Stored { key, payload, attempts, timer, .. } = *stored;
        let run = Run {
            id,
            key,
            attempt: attempts,
            due: timer.due(),
            late,
            epoch: called.epoch,
            lost: Lost(called.lost.clone()),
            #[cfg(feature = "postgres")]
            within: self.within,
        };
        let started = catch_unwind(AssertUnwindSafe(|| start(&handler, &payload, run, cx)));
        match started {
            Ok(Ok(outcome)) => teller.tell(outcome),
            Ok(Err(pending)) => {
                let task = tokio::spawn(async move {
                    // An error's text is the user's code too.
                    let called = async { answered(pending.await) };
                    match AssertUnwindSafe(called).catch_unwind().await {
                        Ok(outcome) => teller.tell_now(outcome),
                        Err(panic) => teller.tell_now(panicked(panic)),
                    }
                });
                called.outcomes.send(Command::Pends(id, number, task.abort_handle()));
            }
            Err(panic) => teller.tell(panicked(panic)),
        }
    }
}

/// What reads the payload is the user's code, and so is what makes the future, what it does, and an error's text: all that
/// may panic. A future that is not ready is handed back.
fn start(handler: &Handler, payload: &[u8], run: Run, cx: &mut Context<'_>) -> Result<Outcome, Started> {
    match handler.start(payload, run) {
        Ok(mut started) => match started.as_mut().poll(cx) {
            Poll::Ready(result) => Ok(answered(result)),
            Poll::Pending => Err(started),
        },
        Err(error) => Ok(Outcome::Unreadable(error.to_string())),
    }
}

fn answered(result: HandlerResult) -> Outcome {
    Outcome::Answered(result.map_err(|error| error.to_string()))
}

fn panicked(panic: Box<dyn Any + Send>) -> Outcome {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let outcome = Outcome::Panicked(text.unwrap_or("of another type").to_owned());
    // To drop it is the user's code, which may panic again: then there is no end of it but to forget it.
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        std::mem::forget(again);
    }
    outcome
}
