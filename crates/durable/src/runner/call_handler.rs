//! Calls handlers, each in a task of its own.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use futures::FutureExt;
use jiff::Timestamp;
use tokio::sync::mpsc::UnboundedSender;

use super::lease::Lease;
use super::live::{Attempt, Live};
use super::{Command, Outcome, Runner};
use crate::error::{panic_text, with_causes};
use crate::handler::{Handler, Lost, Run};
use crate::id::TimerId;
use crate::store::Stored;
use crate::tables::CRASH;

impl Runner {
    /// The wall clock has shown `now` just now.
    pub(super) fn start(&mut self, mut attempt: Attempt, now: Timestamp) {
        let Stored { timer, key, attempts, .. } = &*attempt.stored;
        let (id, due) = (timer.id(), timer.due());
        let last = attempt.stored.failures.last();
        let is_after_crash = last.is_some_and(|last| last.attempt + 1 == *attempts && last.error == CRASH);
        let late = Duration::try_from(now.duration_since(due)).unwrap_or(Duration::ZERO);
        {
            let mut stats = self.shared.stats();
            stats.attempts += 1;
            stats.crashes += u64::from(is_after_crash);
            stats.lateness.record(late);
        }
        let run = Run {
            id,
            key: key.clone(),
            attempt: *attempts,
            due,
            late,
            epoch: self.owner.epoch,
            lost: Lost(self.lost.subscribe()),
            #[cfg(feature = "postgres")]
            within: crate::handler::Within {
                timer: *timer,
                series: attempt.stored.series.clone().map(Box::new),
                version: attempt.stored.version,
                has_finished: Arc::clone(&attempt.has_finished),
                shared: Arc::clone(&self.shared),
                postgres: self.settings.postgres.clone(),
            },
        };
        // The store has them too, and very many attempts may run.
        attempt.stored.failures = Vec::new();
        let call = Call {
            is_stopping: Arc::clone(&self.is_stopping),
            teller: Teller { id, sender: self.sender.clone(), was_called: false, has_told: false },
            lease: self.share.as_ref().map(|share| share.lease.clone()),
            handler: Arc::clone(&attempt.handler),
            payload: std::mem::take(&mut attempt.stored.payload),
            run,
        };
        let task = tokio::spawn(async move { call.make().await }).abort_handle();
        self.live.insert(id, Live::Running { attempt, task });
    }
}

/// A handler that is to be called.
struct Call {
    /// Set by a stop: no more handlers are called.
    is_stopping: Arc<AtomicBool>,
    teller: Teller,
    /// It may be called while this is good. `None` if no other instance may have the timer.
    lease: Option<Lease>,
    handler: Arc<Handler>,
    payload: Vec<u8>,
    run: Run,
}

impl Call {
    /// Calls the handler, and tells the runner how it ended.
    fn make(self) -> impl Future<Output = ()> {
        let Self { is_stopping, mut teller, lease, handler, payload, run } = self;
        // Since it began, the process may have stood still, joined again, or been stopped.
        let is_late = is_stopping.load(Ordering::Acquire)
            || lease.is_some_and(|lease| !lease.is_good() || run.lost.is_lost());
        teller.was_called = !is_late;
        // All of this is user code, and may panic: reading the payload, making the future, polling it, and the text of an error.
        let started = (!is_late).then(|| {
            catch_unwind(AssertUnwindSafe(|| match (handler.start)(&payload, run) {
                Ok(started) => {
                    Ok(async { Outcome::Answered(started.await.map_err(|error| with_causes(&*error))) })
                }
                Err(error) => {
                    let field = match error.path().to_string().as_str() {
                        "." => "its beginning".to_owned(),
                        path => format!("`{path}`"),
                    };
                    Err(Outcome::Unreadable(field, error.into_inner().to_string()))
                }
            }))
        });
        async move {
            let outcome = match started {
                None => Ok(Outcome::TooLate),
                Some(Ok(Ok(called))) => AssertUnwindSafe(called).catch_unwind().await,
                Some(Ok(Err(outcome))) => Ok(outcome),
                Some(Err(panic)) => Err(panic),
            };
            teller.tell(outcome.unwrap_or_else(|panic| Outcome::Panicked(panic_text(panic))));
        }
    }
}

/// Tells the runner how a handler ended, even if its task is dropped.
struct Teller {
    id: TimerId,
    sender: UnboundedSender<Command>,
    was_called: bool,
    has_told: bool,
}

impl Teller {
    fn tell(&mut self, outcome: Outcome) {
        self.has_told = true;
        // After a stop there is no runner.
        drop(self.sender.send(Command::Ended(self.id, outcome)));
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        if !self.has_told {
            self.tell(if self.was_called { Outcome::Dropped } else { Outcome::TooLate });
        }
    }
}

/// Puts this task at the end of the runtime's queue, where other threads find it too. `yield_now` would keep it for this
/// thread.
pub(super) async fn let_others_run() {
    let mut has_returned = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut has_returned, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
