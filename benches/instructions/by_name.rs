//! What users call, who have changed `use tokio::time` to `use timingwheel::time`, beside tokio's own.
//!
//! As in [`timers`](crate::timers) a tick of ours is a thousand times as long as usual, except where timers fire.

use std::future::{Pending, Ready, pending, ready};
use std::hint::black_box;
use std::ops::RangeInclusive;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use timingwheel::{TimingWheel, time};
use tokio::runtime::{Builder, Runtime};
use tokio::task::yield_now;

use crate::operation::{Operation, Prepared, REPETITIONS};

const fn operations<S: Side>() -> [Operation; COUNT] {
    [
        Operation::new("by name: ready", ready_at_once::<S, MultiThread>).with_target(110.0),
        Operation::new("by name: pending once", pending_once::<S, MultiThread>),
        Operation::new("by name: arm in a box, drop", arm_in_a_box::<S, MultiThread>),
        Operation::new("1 thread: ready", ready_at_once::<S, CurrentThread>).with_target(110.0),
        Operation::new("1 thread: pending once", pending_once::<S, CurrentThread>),
        Operation::new("1 thread: arm in a box, drop", arm_in_a_box::<S, CurrentThread>),
        Operation::new("1 thread: sleep 1 ms", fire::<S, CurrentThread>),
        #[cfg(feature = "test-util")]
        Operation::new("paused clock: sleep 1 ms", fire::<S, Paused>),
    ]
}

const COUNT: usize = if cfg!(feature = "test-util") { 8 } else { 7 };

pub(crate) static OURS: [Operation; COUNT] = operations::<ByName>();
pub(crate) static TOKIOS: [Operation; COUNT] = operations::<Tokios>();

/// One code for both sides, without a call that is not theirs.
trait Side: 'static {
    type Sleep: Future<Output = ()> + 'static;
    type Timeout<F: Future>: Future<Output = Result<F::Output, Self::Elapsed>> + 'static
    where
        F: 'static;
    type Elapsed;
    /// What delays are multiplied with.
    const SCALE: u32;

    /// Makes ticks as much longer, on the runtime that is entered.
    fn lengthen_ticks();
    fn sleep(duration: Duration) -> Self::Sleep;
    fn timeout<F: Future + 'static>(duration: Duration, future: F) -> Self::Timeout<F>;
    /// How many timers the runtime that is entered has armed so far.
    fn armed() -> Option<u32>;
}

struct ByName;

impl Side for ByName {
    type Sleep = time::Sleep;
    type Timeout<F: Future>
        = time::Timeout<F>
    where
        F: 'static;
    type Elapsed = time::error::Elapsed;
    const SCALE: u32 = 1_000;

    fn lengthen_ticks() {
        let wheel = TimingWheel::builder().tick(Duration::from_millis(1) * Self::SCALE).build();
        time::set_wheel(wheel.expect("a wheel")).expect("the runtime has no wheel yet");
    }

    fn sleep(duration: Duration) -> Self::Sleep {
        time::sleep(duration)
    }

    fn timeout<F: Future + 'static>(duration: Duration, future: F) -> Self::Timeout<F> {
        time::timeout(duration, future)
    }

    fn armed() -> Option<u32> {
        Some(time::wheel().stats().armed.try_into().expect("a few thousand"))
    }
}

struct Tokios;

impl Side for Tokios {
    type Sleep = tokio::time::Sleep;
    type Timeout<F: Future>
        = tokio::time::Timeout<F>
    where
        F: 'static;
    type Elapsed = tokio::time::error::Elapsed;
    const SCALE: u32 = 1;

    fn lengthen_ticks() {}

    fn sleep(duration: Duration) -> Self::Sleep {
        tokio::time::sleep(duration)
    }

    fn timeout<F: Future + 'static>(duration: Duration, future: F) -> Self::Timeout<F> {
        tokio::time::timeout(duration, future)
    }

    /// tokio counts no timers; that the first poll is pending has to do.
    fn armed() -> Option<u32> {
        None
    }
}

/// Where timers are made.
trait On: 'static {
    fn runtime() -> Runtime;
}

/// Timers are made on a thread that is none of its workers: the worker has the driver, which is not counted.
struct MultiThread;

impl On for MultiThread {
    fn runtime() -> Runtime {
        Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime")
    }
}

struct CurrentThread;

impl On for CurrentThread {
    fn runtime() -> Runtime {
        Builder::new_current_thread().enable_all().build().expect("a runtime")
    }
}

#[cfg(feature = "test-util")]
struct Paused;

#[cfg(feature = "test-util")]
impl On for Paused {
    fn runtime() -> Runtime {
        Builder::new_current_thread().enable_all().start_paused(true).build().expect("a runtime")
    }
}

type Armed<S> = <S as Side>::Timeout<Pending<()>>;

/// What an operation works on.
struct State<S: Side> {
    delay: Duration,
    /// What is armed in a box, so that no allocation is counted.
    place: Pin<Box<Option<Armed<S>>>>,
    /// The earliest of all, so that none of the others is: that takes the driver to be woken.
    earlier: Option<Pin<Box<S::Sleep>>>,
    /// Last, so that it outlives its timers.
    runtime: Runtime,
}

impl<S: Side> State<S> {
    fn new(runtime: Runtime) -> Self {
        Self { delay: Duration::from_secs(30) * S::SCALE, place: Box::pin(None), earlier: None, runtime }
    }

    fn beside_an_earlier(runtime: Runtime) -> Self {
        let mut state = Self::new(runtime);
        state.earlier = state.runtime.block_on(async {
            S::lengthen_ticks();
            let mut earlier = Box::pin(S::sleep(Duration::from_secs(10) * S::SCALE));
            assert!(earlier.as_mut().poll(&mut no_task()).is_pending(), "the timer was not registered");
            // The driver sees it.
            tokio::time::sleep(Duration::from_millis(2)).await;
            yield_now().await;
            Some(earlier)
        });
        state
    }

    fn warmed(mut self, run: fn(&mut Self)) -> Self {
        run(&mut self);
        self
    }

    /// Fails unless so many timers have been armed so far.
    fn assert_armed(&self, expected: u32) {
        self.assert_armed_within(expected..=expected);
    }

    fn assert_armed_within(&self, expected: RangeInclusive<u32>) {
        let _context = self.runtime.enter();
        if let Some(armed) = S::armed() {
            assert!(expected.contains(&armed), "{armed} timers were armed, not {expected:?}");
        }
    }
}

fn no_task() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

fn ready_at_once<S: Side, R: On>() -> Prepared {
    let run = |state: &mut State<S>| {
        let _context = state.runtime.enter();
        for _ in 0..REPETITIONS {
            let timeout: S::Timeout<Ready<()>> = S::timeout(black_box(state.delay), ready(()));
            assert!(pin!(timeout).poll(&mut no_task()).is_ready());
        }
    };
    let state = State::<S>::beside_an_earlier(R::runtime()).warmed(run);
    Prepared::new(state, run, |state| state.assert_armed(1))
}

/// What gives way once is ready when it is polled again.
fn pending_once<S: Side, R: On>() -> Prepared {
    let run = |state: &mut State<S>| {
        let _context = state.runtime.enter();
        for _ in 0..REPETITIONS {
            let mut timeout = pin!(S::timeout(black_box(state.delay), PendingOnce::default()));
            assert!(timeout.as_mut().poll(&mut no_task()).is_pending());
            assert!(timeout.poll(&mut no_task()).is_ready());
        }
    };
    let state = State::<S>::beside_an_earlier(R::runtime()).warmed(run);
    Prepared::new(state, run, |state| state.assert_armed(1 + 2 * REPETITIONS))
}

#[derive(Default)]
struct PendingOnce {
    was_polled: bool,
}

impl Future for PendingOnce {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.was_polled, true) { Poll::Ready(()) } else { Poll::Pending }
    }
}

fn arm_in_a_box<S: Side, R: On>() -> Prepared {
    let run = |state: &mut State<S>| {
        let _context = state.runtime.enter();
        for _ in 0..REPETITIONS {
            state.place.set(Some(S::timeout(black_box(state.delay), pending())));
            let timeout = black_box(state.place.as_mut()).as_pin_mut().expect("it has just been put there");
            assert!(timeout.poll(&mut no_task()).is_pending());
            state.place.set(None);
        }
    };
    let state = State::<S>::beside_an_earlier(R::runtime()).warmed(run);
    Prepared::new(state, run, |state| state.assert_armed(1 + 2 * REPETITIONS))
}

/// Made, armed, waited for, fired and polled, one after the other: with the turns that fire them, as they are on the thread
/// that is counted. Of a multi-thread runtime they are not, so there is no such row.
fn fire<S: Side, R: On>() -> Prepared {
    let run = |state: &mut State<S>| {
        state.runtime.block_on(async {
            for _ in 0..REPETITIONS {
                S::sleep(black_box(Duration::from_millis(1))).await;
            }
        });
    };
    let state = State::<S>::new(R::runtime()).warmed(run);
    // A thread that loses its core between making a timer and polling it may find it due.
    Prepared::new(state, run, |state| state.assert_armed_within(2 * REPETITIONS * 99 / 100..=2 * REPETITIONS))
}
