//! What the cases here share: a runtime with a wheel, and polls that prove what they did.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use timingwheel::{Stats, TimingWheel};
use tokio::runtime::{Builder, Runtime};
use tokio::task::coop::unconstrained;

use crate::support::time;

/// Never comes while a case runs.
pub(super) const FAR: Duration = Duration::from_secs(30);

/// Both sides live in one runtime, as they would in a server.
pub(super) struct Rig {
    pub(super) runtime: Runtime,
    pub(super) wheel: TimingWheel,
}

impl Rig {
    pub(super) fn new(workers: usize) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(workers).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let wheel = runtime.block_on(async { TimingWheel::new() });
        Self { runtime, wheel }
    }

    /// Runs `work` within the runtime, with the waker of a task, and without a budget that would cut it short.
    pub(super) fn within<T>(&self, mut work: impl FnMut(&mut Context<'_>) -> T) -> T {
        self.runtime.block_on(unconstrained(poll_fn(|cx| Poll::Ready(work(cx)))))
    }

    /// Times `work` [within](Self::within) the runtime.
    pub(super) fn time(&self, mut work: impl FnMut(&mut Context<'_>)) -> Duration {
        self.within(|cx| time(|| work(cx)))
    }

    /// Checks that the wheel saw as many timers as it should have.
    pub(super) fn assert_armed(&self, before: Stats, at_least: usize) {
        let armed = self.wheel.stats().armed - before.armed;
        assert!(armed >= at_least as u64, "only {armed} of {at_least} timers reached the wheel");
    }
}

/// A first poll that registers.
#[track_caller]
pub(super) fn assert_pending<F: Future>(future: Pin<&mut F>, cx: &mut Context<'_>) {
    assert!(future.poll(cx).is_pending(), "the timer was not registered");
}

/// The cheapest waker: it counts.
#[derive(Debug, Default)]
pub(super) struct Wakes(AtomicUsize);

impl Wakes {
    pub(super) fn count(&self) -> usize {
        // Relaxed: nothing else is read by it.
        self.0.load(Ordering::Relaxed)
    }
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Makes a timer for each deadline and polls it, outside of any task, which might take long.
pub(super) fn arm_all<D: Copy, S: Future + Unpin>(
    deadlines: &[D],
    wakes: &Arc<Wakes>,
    make: impl Fn(D) -> S,
) -> Vec<S> {
    let waker = Waker::from(wakes.clone());
    let mut cx = Context::from_waker(&waker);
    let arm = |&deadline| {
        let mut timer = make(deadline);
        assert_pending(Pin::new(&mut timer), &mut cx);
        timer
    };
    deadlines.iter().map(arm).collect()
}

/// Polls what has fired once more, as its task would.
pub(super) fn take_all<S: Future + Unpin>(timers: Vec<S>) {
    let mut cx = Context::from_waker(Waker::noop());
    for mut timer in timers {
        assert!(Pin::new(&mut timer).poll(&mut cx).is_ready(), "the timer woke its task and is not ready");
    }
}
