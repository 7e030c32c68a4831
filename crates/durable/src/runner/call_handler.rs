//! Calls handlers, each in a task of its own.

use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use futures::FutureExt;
use jiff::Timestamp;
use timingwheel::TimingWheel;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;
use tracing::Instrument;

use super::live::{Attempt, Live};
use super::{Command, Outcome, Runner};
use crate::error::{panic_text, with_causes};
use crate::handler::{Handler, HandlerResult, Hook, Interrupt, Panicked, Run};
use crate::id::TimerId;
use crate::store::{Failure, Stored};
use crate::tables::CRASH;

impl Runner {
    /// The wall clock has shown `now` just now.
    pub(super) fn start(&mut self, mut attempt: Attempt, now: Timestamp) {
        let Stored { timer, attempts, ref failures, .. } = *attempt.stored;
        let (id, due) = (timer.id(), timer.due());
        let is_crash = |last: &Failure| last.attempt + 1 == attempts && last.error == CRASH;
        let is_after_crash = failures.last().is_some_and(is_crash);
        let late = Duration::try_from(now.duration_since(due)).unwrap_or(Duration::ZERO);
        {
            let mut stats = self.shared.stats();
            stats.attempts += 1;
            stats.crashes += u64::from(is_after_crash);
            stats.lateness.record(late);
            let of_kind = stats.kinds.entry(attempt.handler.kind).or_default();
            of_kind.attempts += 1;
            of_kind.lateness.record(late);
        }
        let mut run = Run::new(&attempt.stored, attempt.handler.kind, self.durable.clone(), &self.shared);
        run.late = late;
        #[cfg(feature = "postgres")]
        {
            run.within.postgres.clone_from(&self.settings.postgres);
            attempt.has_finished = Arc::clone(&run.within.has_finished);
        }
        let signal = run.signal.clone();
        if self.beginning_of(id).is_cancelled {
            signal.interrupt(Interrupt::Cancelled);
        }
        // The store has them too, and very many attempts may run.
        attempt.stored.failures = Vec::new();
        let (is_stopping, handler) = (Arc::clone(&self.is_stopping), Arc::clone(&attempt.handler));
        // Until when it may be called. `None` if no other instance may have the timer.
        let lease = self.share.is_shared.then(|| self.share.lease.clone());
        let limit = handler.time_limit.map(|limit| (self.wheel.clone(), limit));
        let (hook, payload) = (self.settings.hook.clone(), std::mem::take(&mut attempt.stored.payload));
        let teller = Teller { id, sender: self.sender.clone(), begun: None, outcome: Outcome::TooLate };
        let call = async move {
            // All of it, and not only the fields that are used here.
            let mut teller = teller;
            // Since it began, the process may have stood still, joined again, or been stopped.
            if is_stopping.load(Ordering::Acquire)
                || lease.is_some_and(|lease| !lease.is_good() || run.interrupted() == Some(Interrupt::Lost))
            {
                return;
            }
            (teller.begun, teller.outcome) = (Some(Instant::now()), Outcome::Dropped);
            let outcome = AssertUnwindSafe(outcome(handler, limit, hook, payload, run)).catch_unwind().await;
            teller.outcome =
                outcome.unwrap_or_else(|panic| Outcome::Panicked(Panicked(panic_text(panic)).to_string()));
        };
        let task = tokio::spawn(call).abort_handle();
        self.live.insert(id, Live::Running { attempt, task, signal });
    }
}

/// Calls the handler. All of this is user code, and may panic: reading the payload, making the future, polling it, the hook, the
/// subscriber of the span, and the text of an error.
async fn outcome(
    handler: Arc<Handler>,
    limit: Option<(TimingWheel, Duration)>,
    hook: Option<Hook>,
    payload: Vec<u8>,
    run: Run,
) -> Outcome {
    let Run { id, kind, attempt, .. } = run;
    let span =
        tracing::info_span!(target: "timingwheel_durable", "attempt", kind, key = run.key, attempt, %id);
    let result = async move {
        let around = hook.map(|hook| (hook, run.clone()));
        let handling = in_time(limit, async move { (handler.start)(&payload, run)?.await });
        let Some((hook, run)) = around else { return handling.await };
        let handling = AssertUnwindSafe(handling);
        let handling = handling
            .catch_unwind()
            .map(|result| result.unwrap_or_else(|panic| Err(Panicked(panic_text(panic)).into())));
        hook(run, Box::pin(handling)).await
    };
    match result.instrument(span).await {
        Ok(answer) => Outcome::Answered(Ok(answer)),
        Err(error) if error.is::<Panicked>() => Outcome::Panicked(error.to_string()),
        Err(error) => Outcome::Answered(Err(with_causes(&*error))),
    }
}

async fn in_time(
    limit: Option<(TimingWheel, Duration)>,
    handling: impl Future<Output = HandlerResult>,
) -> HandlerResult {
    let Some((wheel, limit)) = limit else { return handling.await };
    #[cfg(feature = "deadline")]
    let ended = timingwheel_deadline::DeadlineExt::deadline_in(&wheel, limit).run(handling).await;
    #[cfg(not(feature = "deadline"))]
    let ended = wheel.timeout(limit, handling).await;
    ended.unwrap_or_else(|_| Err(format!("it took longer than its limit of {limit:?}").into()))
}

/// Tells the runner how a handler ended when it is dropped: also if its task is dropped first.
struct Teller {
    id: TimerId,
    sender: UnboundedSender<Command>,
    /// When the handler was called.
    begun: Option<Instant>,
    outcome: Outcome,
}

impl Drop for Teller {
    fn drop(&mut self) {
        let took = self.begun.map_or(Duration::ZERO, |begun| begun.elapsed());
        let outcome = std::mem::replace(&mut self.outcome, Outcome::Dropped);
        // After a stop there is no runner.
        drop(self.sender.send(Command::Ended(self.id, outcome, took)));
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
