//! A runtime on which one sort of timer does its work.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use timingwheel::TimingWheel;
use tokio::runtime::{Builder, Runtime};
use tokio::task::coop::unconstrained;

use super::timers::{AsyncIo, FuturesTimer, Pingora, Timer, Tokio};
use crate::support::cpu_time;

pub(super) struct Host<T> {
    pub(super) name: &'static str,
    pub(super) runtime: Runtime,
    pub(super) timer: T,
}

/// What some work took, from first to last call, and in CPU time of the whole process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spent {
    pub(super) wall: Duration,
    pub(super) cpu: Duration,
}

pub(super) type Pinned<T> = Pin<Box<<T as Timer>::Sleep>>;

impl<T: Timer> Host<T> {
    fn new(name: &'static str, runtime: Runtime, timer: impl FnOnce() -> T) -> Self {
        let timer = {
            let _guard = runtime.enter();
            timer()
        };
        Self { name, runtime, timer }
    }

    /// Runs `work` in a task on a worker: timers may be made in another way elsewhere. A budget would cut it short.
    ///
    /// The CPU time is read only after a timer made later has fired, for by then a thread of the timers' own has done
    /// what it was left with.
    pub(super) fn in_task<R: Send + 'static>(
        &self,
        work: impl FnOnce(&T, &mut Context<'_>) -> R + Send + 'static,
    ) -> (R, Spent) {
        const SETTLE: Duration = Duration::from_millis(1);
        let timer = self.timer.clone();
        let mut work = Some(work);
        let task = self.runtime.spawn(unconstrained(async move {
            let (cpu, start) = (cpu_time(), Instant::now());
            let result = poll_fn(|cx| Poll::Ready(work.take().map(|work| work(&timer, cx)))).await;
            let wall = start.elapsed();
            timer.sleep(SETTLE).await;
            (result.expect("it runs once"), Spent { wall, cpu: cpu_time() - cpu })
        }));
        self.runtime.block_on(task).expect("the work does not panic")
    }

    /// Registers so many timers that are far from due, of which the first is due before the rest.
    pub(super) fn fill(&self, timers: usize) -> Vec<Pinned<T>> {
        let delays = std::iter::once(NEXT).chain(std::iter::repeat_with(far)).take(timers);
        let delays: Vec<Duration> = delays.collect();
        let (pending, _) = self.in_task(move |timer, cx| {
            let register = |delay| {
                let mut sleep = Box::pin(timer.sleep(delay));
                assert_pending(sleep.as_mut(), cx);
                sleep
            };
            delays.into_iter().map(register).collect()
        });
        pending
    }
}

/// All delays are beyond any run, and below the 15 minutes from which pingora's timeouts are tokio's.
const NEXT: Duration = Duration::from_secs(200);
pub(super) const TIMEOUT: Duration = Duration::from_secs(300);
const FURTHEST: Duration = Duration::from_secs(800);

/// A delay from the timeout on.
pub(super) fn far() -> Duration {
    TIMEOUT + (FURTHEST - TIMEOUT).mul_f64(fastrand::f64())
}

/// The timer is registered: its first poll is pending.
pub(super) fn assert_pending<F: Future>(future: Pin<&mut F>, cx: &mut Context<'_>) {
    assert!(future.poll(cx).is_pending(), "the timer was not registered");
}

pub(crate) fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime")
}

pub(super) fn ours() -> Host<TimingWheel> {
    Host::new("timingwheel", runtime(), TimingWheel::new)
}

/// Ours as precise as others are that have no tick.
pub(super) fn ours_with_short_tick() -> Host<TimingWheel> {
    const TICK: Duration = Duration::from_micros(100);
    let wheel = || TimingWheel::builder().tick(TICK).build().expect("a wheel");
    Host::new("timingwheel, a tick of 100 µs", runtime(), wheel)
}

/// What is done with each of the rivals, whatever its type.
pub(super) trait Visit {
    fn visit<T: Timer>(&mut self, host: &Host<T>);
}

pub(super) fn each_rival(visit: &mut impl Visit) {
    visit.visit(&Host::new("tokio::time", runtime(), || Tokio));
    #[cfg(tokio_unstable)]
    visit.visit(&Host::new("tokio::time, alternative timer", alternative_runtime(), || Tokio));
    visit.visit(&Host::new("async-io", runtime(), || AsyncIo));
    visit.visit(&Host::new("futures-timer", runtime(), || FuturesTimer));
    visit.visit(&Host::new("pingora-timeout", runtime(), || Pingora));
}

/// Says how to see the rival that this build leaves out, or what the build needed.
pub(crate) const ALTERNATIVE: &str = if cfg!(tokio_unstable) {
    "Built with `--cfg tokio_unstable`, for tokio's alternative timer."
} else {
    "tokio's alternative timer takes part if this is built with `RUSTFLAGS=\"--cfg tokio_unstable\"`."
};

#[cfg(tokio_unstable)]
pub(crate) fn alternative_runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().enable_alt_timer().build().expect("a runtime")
}
