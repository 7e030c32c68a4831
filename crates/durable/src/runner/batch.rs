//! Calls that go to the runtime together, and the tasks that make them.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::{coop, yield_now};

use super::call_handler::Call;
use super::outcomes::Outcomes;

/// For how long a task makes calls before it lets others run, such as the runner, and what its handlers have woken.
const SLICE: Duration = Duration::from_micros(100);

/// What all calls of a batch have in common.
pub(super) struct Called {
    pub(super) epoch: u64,
    pub(super) lost: watch::Receiver<bool>,
    /// Until when handlers may be called.
    pub(super) good_until: Option<tokio::time::Instant>,
    pub(super) outcomes: Arc<Outcomes>,
}

/// Calls that are made by as many tasks as the runtime has threads. Each takes one call at a time, so a handler that computes
/// or blocks keeps nothing back but its thread, as it would as a task of its own. And as long as more calls are left there is
/// one task that has not run yet: for the thread that takes over where a handler is in `block_in_place`.
///
/// The runner is woken when a task ends or yields, and not by each outcome: it would wait behind the next handler, on the
/// same thread. What was told before a handler that blocks is taken all the same. A task that takes a second call leaves
/// another one without a call, or in one, and that wakes the runner when it ends; unless all threads are blocked.
pub(super) struct Batch {
    called: Called,
    waiting: Mutex<Waiting>,
}

struct Waiting {
    calls: std::vec::IntoIter<Call>,
    /// Tasks that have not run yet.
    fresh: usize,
}

impl Batch {
    /// Within a tokio runtime.
    pub(super) fn start(calls: Vec<Call>, called: Called) {
        let fresh = Handle::current().metrics().num_workers().min(calls.len());
        let waiting = Mutex::new(Waiting { calls: calls.into_iter(), fresh });
        let batch = Arc::new(Self { called, waiting });
        for _ in 0..fresh {
            batch.spawn();
        }
    }

    fn spawn(self: &Arc<Self>) {
        tokio::spawn(Arc::clone(self).run());
    }

    /// Never held while user code runs.
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn run(self: Arc<Self>) {
        let needs_another = {
            let mut waiting = self.waiting();
            waiting.fresh -= 1;
            // One call is this task's own.
            let needs_another = waiting.fresh == 0 && waiting.calls.len() > 1;
            waiting.fresh += usize::from(needs_another);
            needs_another
        };
        if needs_another {
            self.spawn();
        }
        let mut since = Instant::now();
        loop {
            // Let go before the call is made.
            let next = self.waiting().calls.next();
            let Some(call) = next else { return self.called.outcomes.wake() };
            let mut call = Some(call);
            poll_fn(|cx| {
                if let Some(call) = call.take() {
                    call.make(&self.called, cx);
                }
                Poll::Ready(())
            })
            .await;
            if since.elapsed() >= SLICE || !coop::has_budget_remaining() {
                self.called.outcomes.wake();
                yield_now().await;
                since = Instant::now();
            }
        }
    }
}
