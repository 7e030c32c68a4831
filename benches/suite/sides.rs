//! The sides of comparisons: timers on a wheel, tokio's and others', and the runtimes in which they work.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use hdrhistogram::Histogram;
use timingwheel::{Elapsed, Stats, TimingWheel};
use tokio::runtime::{Builder, Runtime};
use tokio::task::coop::unconstrained;
use tokio::time::Instant;

use crate::support::{cpu_time, time};

/// Never comes while a case runs.
pub(crate) const FAR: Duration = Duration::from_secs(30);

/// Makes sleeps.
pub(crate) trait Timer: Clone + Send + Sync + 'static {
    type Sleep: Future + Send + 'static;

    fn sleep(&self, delay: Duration) -> Self::Sleep;
}

pub(crate) trait Timeouts: Timer<Sleep: Future<Output = ()>> {
    type Elapsed: Send;

    fn timeout<F: Future<Output: Send> + Send>(
        &self,
        limit: Duration,
        future: F,
    ) -> impl Future<Output = Result<F::Output, Self::Elapsed>> + Send;
}

/// What both a wheel and tokio have.
pub(crate) trait Timers: Timeouts {
    /// A sleep as users keep it in a collection.
    type Kept: Future<Output = ()> + Unpin;

    fn keep(sleep: Self::Sleep) -> Self::Kept;
    fn replace(kept: &mut Self::Kept, sleep: Self::Sleep);
    fn sleep_until(&self, deadline: Instant) -> Self::Sleep;
    fn deadline(sleep: &Self::Sleep) -> Instant;
    fn reset(sleep: Pin<&mut Self::Sleep>, deadline: Instant);

    /// What the timers count themselves.
    fn stats(&self) -> Option<Stats>;
}

impl Timer for TimingWheel {
    type Sleep = timingwheel::Sleep;

    fn sleep(&self, delay: Duration) -> Self::Sleep {
        Self::sleep(self, delay)
    }
}

impl Timeouts for TimingWheel {
    type Elapsed = Elapsed;

    fn timeout<F: Future<Output: Send> + Send>(
        &self,
        limit: Duration,
        future: F,
    ) -> impl Future<Output = Result<F::Output, Self::Elapsed>> + Send {
        Self::timeout(self, limit, future)
    }
}

impl Timers for TimingWheel {
    type Kept = timingwheel::Sleep;

    fn keep(sleep: Self::Sleep) -> Self::Kept {
        sleep
    }

    fn replace(kept: &mut Self::Kept, sleep: Self::Sleep) {
        *kept = sleep;
    }

    fn sleep_until(&self, deadline: Instant) -> Self::Sleep {
        Self::sleep_until(self, deadline)
    }

    fn deadline(sleep: &Self::Sleep) -> Instant {
        sleep.deadline()
    }

    fn reset(sleep: Pin<&mut Self::Sleep>, deadline: Instant) {
        sleep.reset(deadline);
    }

    fn stats(&self) -> Option<Stats> {
        Some(Self::stats(self))
    }
}

/// The timers of the runtime, behind `tokio::time`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tokio;

impl Timer for Tokio {
    type Sleep = tokio::time::Sleep;

    fn sleep(&self, delay: Duration) -> Self::Sleep {
        tokio::time::sleep(delay)
    }
}

impl Timeouts for Tokio {
    type Elapsed = tokio::time::error::Elapsed;

    fn timeout<F: Future<Output: Send> + Send>(
        &self,
        limit: Duration,
        future: F,
    ) -> impl Future<Output = Result<F::Output, Self::Elapsed>> + Send {
        tokio::time::timeout(limit, future)
    }
}

impl Timers for Tokio {
    type Kept = Pin<Box<tokio::time::Sleep>>;

    fn keep(sleep: Self::Sleep) -> Self::Kept {
        Box::pin(sleep)
    }

    fn replace(kept: &mut Self::Kept, sleep: Self::Sleep) {
        kept.set(sleep);
    }

    fn sleep_until(&self, deadline: Instant) -> Self::Sleep {
        tokio::time::sleep_until(deadline)
    }

    fn deadline(sleep: &Self::Sleep) -> Instant {
        sleep.deadline()
    }

    fn reset(sleep: Pin<&mut Self::Sleep>, deadline: Instant) {
        sleep.reset(deadline);
    }

    fn stats(&self) -> Option<Stats> {
        None
    }
}

pub(crate) fn multi_thread(workers: usize) -> Runtime {
    Builder::new_multi_thread().worker_threads(workers).enable_all().build().expect("a runtime")
}

/// A runtime with tokio's alternative timer.
#[cfg(tokio_unstable)]
pub(crate) fn alternative(workers: usize) -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(workers).enable_all().enable_alt_timer().build().expect("a runtime")
}

/// A runtime with a wheel. tokio's timers live in it too, as they would in a server.
pub(crate) struct Rig {
    pub(crate) wheel: TimingWheel,
    /// Last, so that it outlives its timers.
    pub(crate) runtime: Runtime,
}

impl Rig {
    pub(crate) fn new(workers: usize) -> Self {
        Self::with(multi_thread(workers), TimingWheel::builder())
    }

    pub(crate) fn with(runtime: Runtime, settings: timingwheel::Builder) -> Self {
        let wheel = runtime.block_on(async { settings.build() }).expect("settings within their limits");
        Self { wheel, runtime }
    }

    /// With the wheel that timers by name are on.
    pub(crate) fn by_name(runtime: Runtime) -> Self {
        Self { wheel: runtime.block_on(async { timingwheel::time::wheel() }), runtime }
    }

    /// Runs `work` within the runtime, with the waker of a task, and without a budget that would cut it short.
    pub(crate) fn within<T>(&self, mut work: impl FnMut(&mut Context<'_>) -> T) -> T {
        self.runtime.block_on(unconstrained(poll_fn(|cx| Poll::Ready(work(cx)))))
    }

    /// Times `work` [within](Self::within) the runtime.
    pub(crate) fn time(&self, mut work: impl FnMut(&mut Context<'_>)) -> Duration {
        self.within(|cx| time(|| work(cx)))
    }

    /// Checks that the wheel saw as many timers as it should have.
    pub(crate) fn assert_armed(&self, before: Stats, at_least: usize) {
        let armed = self.wheel.stats().armed - before.armed;
        assert!(armed >= at_least as u64, "only {armed} of {at_least} timers reached the wheel");
    }
}

/// Waits for all `tasks`, and returns what they did.
pub(crate) async fn join<T>(tasks: impl IntoIterator<Item = tokio::task::JoinHandle<T>>) -> Vec<T> {
    let mut all = Vec::new();
    for task in tasks {
        all.push(task.await.expect("the task does not panic"));
    }
    all
}

/// A first poll that registers.
#[track_caller]
pub(crate) fn assert_pending<F: Future>(future: Pin<&mut F>, cx: &mut Context<'_>) {
    assert!(future.poll(cx).is_pending(), "the timer was not registered");
}

/// The cheapest waker: it counts.
#[derive(Debug, Default)]
pub(crate) struct Wakes(AtomicUsize);

impl Wakes {
    pub(crate) fn count(&self) -> usize {
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

/// Arms all sleeps, outside of any task, which might take long.
pub(crate) fn arm_all<T: Timers>(sleeps: impl Iterator<Item = T::Sleep>, wakes: &Arc<Wakes>) -> Vec<T::Kept> {
    let waker = Waker::from(wakes.clone());
    let mut cx = Context::from_waker(&waker);
    let arm = |sleep| {
        let mut kept = T::keep(sleep);
        assert_pending(Pin::new(&mut kept), &mut cx);
        kept
    };
    sleeps.map(arm).collect()
}

/// Polls all that have fired once more, as their tasks would.
pub(crate) fn take_all(timers: Vec<impl Future + Unpin>) {
    let mut cx = Context::from_waker(Waker::noop());
    for mut timer in timers {
        assert!(Pin::new(&mut timer).poll(&mut cx).is_ready(), "the timer woke its task and is not ready");
    }
}

/// Deadlines at random times in `spread`, after `lead`, which is longer than arming takes.
pub(crate) fn deadlines(timers: usize, lead: Duration, spread: Duration) -> Vec<Instant> {
    let first = Instant::now() + lead;
    (0..timers).map(|_| first + spread.mul_f64(fastrand::f64())).collect()
}

/// Tasks that slept.
pub(crate) struct Slept {
    /// How late each ran, in nanoseconds.
    pub(crate) late: Histogram<u64>,
    /// Of all.
    pub(crate) cpu: Duration,
}

/// Sleeps until each deadline in a task of its own.
pub(crate) fn sleep_in_tasks(runtime: &Runtime, deadlines: &[Instant], timers: &impl Timers) -> Slept {
    const DIGITS: u8 = 3;
    let start = cpu_time();
    let spawn = |&deadline: &Instant| {
        let timers = timers.clone();
        tokio::spawn(async move {
            timers.sleep_until(deadline).await;
            Instant::now().checked_duration_since(deadline).expect("no timer is early")
        })
    };
    let all = runtime.block_on(async {
        let tasks: Vec<_> = deadlines.iter().map(spawn).collect();
        let first = deadlines.iter().min().expect("some");
        if Instant::now() >= *first {
            eprintln!("spawning took longer than the time until the first deadline, so the first tasks are late by that");
        }
        join(tasks).await
    });
    let cpu = cpu_time() - start;
    let mut late = Histogram::new(DIGITS).expect("digits that it can keep");
    for time in all {
        let nanos = u64::try_from(time.as_nanos()).expect("less than 584 years");
        late.record(nanos).expect("a histogram that grows");
    }
    Slept { late, cpu }
}
