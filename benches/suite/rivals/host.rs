//! A runtime on which one sort of timer does its work.

use std::future::{Pending, pending, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use pingora_timeout::fast_timeout::{FastOrTokioTimeout, fast_timeout};
use timingwheel::TimingWheel;
use tokio::runtime::Runtime;
use tokio::task::coop::unconstrained;

#[cfg(tokio_unstable)]
use crate::sides::alternative;
use crate::sides::{Timer, Tokio, assert_pending, multi_thread};
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

pub(crate) fn runtime() -> Runtime {
    multi_thread(1)
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
    alternative(1)
}

#[derive(Clone, Debug)]
struct AsyncIo;

impl Timer for AsyncIo {
    type Sleep = async_io::Timer;

    fn sleep(&self, delay: Duration) -> Self::Sleep {
        async_io::Timer::after(delay)
    }
}

#[derive(Clone, Debug)]
struct FuturesTimer;

impl Timer for FuturesTimer {
    type Sleep = futures_timer::Delay;

    fn sleep(&self, delay: Duration) -> Self::Sleep {
        futures_timer::Delay::new(delay)
    }
}

#[derive(Clone, Debug)]
struct Pingora;

impl Timer for Pingora {
    type Sleep = pingora_timeout::Timeout<Pending<()>, FastOrTokioTimeout>;

    fn sleep(&self, delay: Duration) -> Self::Sleep {
        fast_timeout(delay, pending())
    }
}
