//! Calls handlers, each in a task of its own.

use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use futures::FutureExt;
use jiff::Timestamp;
use timingwheel::TimingWheel;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;
use tracing::Instrument;

use super::lease::Lease;
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
        let call = Call {
            is_stopping: Arc::clone(&self.is_stopping),
            teller: Teller { id, sender: self.sender.clone(), begun: None, has_told: false },
            lease: self.share.is_shared.then(|| self.share.lease.clone()),
            handler: Arc::clone(&attempt.handler),
            limit: attempt.handler.time_limit.map(|limit| (self.wheel.clone(), limit)),
            hook: self.settings.hook.clone(),
            payload: std::mem::take(&mut attempt.stored.payload),
            run,
        };
        let task = tokio::spawn(async move { call.make().await }).abort_handle();
        self.live.insert(id, Live::Running { attempt, task, signal });
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
    limit: Option<(TimingWheel, Duration)>,
    hook: Option<Hook>,
    payload: Vec<u8>,
    run: Run,
}

impl Call {
    /// Calls the handler, and tells the runner how it ended.
    async fn make(self) {
        let Self { is_stopping, mut teller, lease, handler, limit, hook, payload, run } = self;
        // Since it began, the process may have stood still, joined again, or been stopped.
        if is_stopping.load(Ordering::Acquire)
            || lease.is_some_and(|lease| !lease.is_good() || run.interrupted() == Some(Interrupt::Lost))
        {
            return teller.tell(Outcome::TooLate);
        }
        teller.begun = Some(Instant::now());
        // All of this is user code, and may panic: reading the payload, making the future, polling it, the hook, the
        // subscriber of the span, and the text of an error.
        let attempt = async move {
            let Run { id, kind, attempt, .. } = run;
            let span = tracing::info_span!(target: "timingwheel_durable", "attempt", kind, key = run.key, attempt, %id);
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
        };
        let outcome = AssertUnwindSafe(attempt).catch_unwind().await;
        teller
            .tell(outcome.unwrap_or_else(|panic| Outcome::Panicked(Panicked(panic_text(panic)).to_string())));
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

/// Tells the runner how a handler ended, even if its task is dropped.
struct Teller {
    id: TimerId,
    sender: UnboundedSender<Command>,
    /// When the handler was called.
    begun: Option<Instant>,
    has_told: bool,
}

impl Teller {
    fn tell(&mut self, outcome: Outcome) {
        self.has_told = true;
        // After a stop there is no runner.
        let took = self.begun.map_or(Duration::ZERO, |begun| begun.elapsed());
        drop(self.sender.send(Command::Ended(self.id, outcome, took)));
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        if !self.has_told {
            self.tell(if self.begun.is_some() { Outcome::Dropped } else { Outcome::TooLate });
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
