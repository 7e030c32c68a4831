//! The futures, ours and tokio's, on a thread within a runtime's context, with a waker that does nothing.
//!
//! A wheel whose ticks are a thousand times as long as usual, and delays as much longer: the same arithmetic, but the
//! clock stays within its tick while instructions are counted, however fast the machine is. tokio's ticks are what they
//! are, so its counts vary by some percent from run to run; they are only for the table.

use std::future::ready;
use std::hint::black_box;
use std::pin::{Pin, pin};
use std::task::{Context, Waker};
use std::time::Duration;

use futures::task::noop_waker_ref;
use timingwheel::{Sleep, TimingWheel};
use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;

use crate::operation::{Operation, Prepared, REPETITIONS};

/// That of firing is only where a clock can be paused.
const COUNT: usize = if cfg!(feature = "test-util") { 9 } else { 8 };

const fn operations<T: Timers>() -> [Operation; COUNT] {
    [
        Operation::new("create, first poll, drop", create_poll_drop::<T>),
        Operation::new("the same, two tasks in turn", create_poll_drop_in_turn::<T>),
        Operation::new("create, drop", create_drop::<T>),
        Operation::new("timeout round a ready future", ready_at_once::<T>),
        Operation::new("poll a pending one again", poll_again::<T>),
        Operation::new("reset to later", reset_to_later::<T>),
        Operation::new("reset to earlier", reset_to_earlier::<T>),
        Operation::new("replace one of 10,000", replace_among_many::<T>),
        #[cfg(feature = "test-util")]
        Operation::new("fire", fire::<T>).with_target(450.0),
    ]
}

pub(crate) static OURS: [Operation; COUNT] = operations::<Ours>();
pub(crate) static TOKIOS: [Operation; COUNT] = operations::<Tokios>();

/// A maker of timers: one code for both sides, without a call that is not theirs.
trait Timers: 'static {
    type Sleep: Future<Output = ()> + 'static;
    /// What delays are multiplied with.
    const SCALE: u32;

    fn new() -> Self;
    fn sleep(&self, delay: Duration) -> Self::Sleep;
    fn timeout_of_ready(&self, delay: Duration) -> impl Future<Output = Result<(), impl Sized>>;
    fn reset(sleep: Pin<&mut Self::Sleep>, deadline: Instant);
    /// Fails unless so many timers have been armed so far, and so many of them are pending.
    fn assert_counts(&self, armed: u32, pending: usize);
}

struct Ours(TimingWheel);

impl Timers for Ours {
    type Sleep = Sleep;
    const SCALE: u32 = 1_000;

    fn new() -> Self {
        let tick = Duration::from_millis(1) * Self::SCALE;
        Self(TimingWheel::builder().tick(tick).build().expect("a wheel"))
    }

    fn sleep(&self, delay: Duration) -> Sleep {
        self.0.sleep(delay)
    }

    fn timeout_of_ready(&self, delay: Duration) -> impl Future<Output = Result<(), impl Sized>> {
        self.0.timeout(delay, ready(()))
    }

    fn reset(sleep: Pin<&mut Sleep>, deadline: Instant) {
        sleep.reset(deadline);
    }

    fn assert_counts(&self, armed: u32, pending: usize) {
        let stats = self.0.stats();
        assert_eq!((stats.armed, stats.pending), (armed.into(), pending));
    }
}

struct Tokios;

impl Timers for Tokios {
    type Sleep = tokio::time::Sleep;
    const SCALE: u32 = 1;

    fn new() -> Self {
        Self
    }

    fn sleep(&self, delay: Duration) -> tokio::time::Sleep {
        tokio::time::sleep(delay)
    }

    fn timeout_of_ready(&self, delay: Duration) -> impl Future<Output = Result<(), impl Sized>> {
        tokio::time::timeout(delay, ready(()))
    }

    fn reset(sleep: Pin<&mut tokio::time::Sleep>, deadline: Instant) {
        sleep.reset(deadline);
    }

    /// tokio counts no timers; that the first poll is pending has to do.
    fn assert_counts(&self, _armed: u32, _pending: usize) {}
}

/// What an operation works on.
struct State<T: Timers> {
    timers: T,
    delay: Duration,
    /// Those whose place others take or that are moved, and the first of all, so that none of the others becomes
    /// the earliest: that takes another thread to be woken.
    pending: Vec<Pin<Box<T::Sleep>>>,
    /// Which of them is replaced, by one with which delay.
    replacements: Vec<(usize, Duration)>,
    /// Where the second of them is moved to, and how far that has come.
    deadlines: Vec<Instant>,
    moved: usize,
    /// Last, so that it outlives its timers.
    runtime: Runtime,
}

impl<T: Timers> State<T> {
    fn new(pending: impl IntoIterator<Item = Duration>) -> Self {
        // Of the other kind the clock can be paused, for which the wheel takes care of more. One worker, for the
        // driver, whose instructions are not counted: it is another thread.
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        Self::on(runtime, pending)
    }

    fn on(runtime: Runtime, pending: impl IntoIterator<Item = Duration>) -> Self {
        let guard = runtime.enter();
        let timers = T::new();
        let first = Duration::from_secs(10);
        let pending = std::iter::once(first).chain(pending).map(|delay| {
            let mut sleep = Box::pin(timers.sleep(delay * T::SCALE));
            assert_pending(sleep.as_mut(), &mut no_task());
            sleep
        });
        let pending = pending.collect();
        drop(guard);
        Self {
            timers,
            delay: FAR * T::SCALE,
            pending,
            replacements: vec![],
            deadlines: vec![],
            moved: 0,
            runtime,
        }
    }

    fn warmed(mut self, run: fn(&mut Self)) -> Self {
        run(&mut self);
        self
    }
}

const FAR: Duration = Duration::from_secs(30);

fn no_task() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

fn assert_pending<F: Future>(future: Pin<&mut F>, cx: &mut Context<'_>) {
    assert!(future.poll(cx).is_pending(), "the timer was not registered");
}

fn create_poll_drop<T: Timers>() -> Prepared {
    let run = |state: &mut State<T>| {
        let _context = state.runtime.enter();
        for _ in 0..REPETITIONS {
            assert_pending(pin!(state.timers.sleep(black_box(state.delay))), &mut no_task());
        }
    };
    Prepared::new(State::new([]).warmed(run), run, |state| state.timers.assert_counts(1 + 2 * REPETITIONS, 1))
}

/// None takes the place of the one before.
fn create_poll_drop_in_turn<T: Timers>() -> Prepared {
    let run = |state: &mut State<T>| {
        let _context = state.runtime.enter();
        for n in 0..REPETITIONS {
            let task = if n % 2 == 0 { Waker::noop() } else { noop_waker_ref() };
            assert_pending(pin!(state.timers.sleep(black_box(state.delay))), &mut Context::from_waker(task));
        }
    };
    Prepared::new(State::new([]).warmed(run), run, |state| state.timers.assert_counts(1 + 2 * REPETITIONS, 1))
}

fn create_drop<T: Timers>() -> Prepared {
    let run = |state: &mut State<T>| {
        let _context = state.runtime.enter();
        for _ in 0..REPETITIONS {
            drop(black_box(state.timers.sleep(black_box(state.delay))));
        }
    };
    Prepared::new(State::new([]).warmed(run), run, |state| state.timers.assert_counts(1, 1))
}

fn ready_at_once<T: Timers>() -> Prepared {
    let run = |state: &mut State<T>| {
        let _context = state.runtime.enter();
        for _ in 0..REPETITIONS {
            let timeout = pin!(state.timers.timeout_of_ready(black_box(state.delay)));
            assert!(timeout.poll(&mut no_task()).is_ready());
        }
    };
    Prepared::new(State::new([]).warmed(run), run, |state| state.timers.assert_counts(1, 1))
}

fn poll_again<T: Timers>() -> Prepared {
    let run = |state: &mut State<T>| {
        let _context = state.runtime.enter();
        for _ in 0..REPETITIONS {
            assert_pending(black_box(state.pending[1].as_mut()), &mut no_task());
        }
    };
    Prepared::new(State::new([FAR]).warmed(run), run, |state| state.timers.assert_counts(2, 2))
}

/// Moves one timer from one deadline to the next: a step for each, in a round to get warm and in another to be counted.
fn reset<T: Timers>(first: Duration, deadline: fn(Instant, Duration) -> Instant) -> Prepared {
    let run = |state: &mut State<T>| {
        let _context = state.runtime.enter();
        let sleep = &mut state.pending[1];
        for &deadline in &state.deadlines[state.moved..][..REPETITIONS as usize] {
            T::reset(black_box(sleep.as_mut()), deadline);
        }
        state.moved += REPETITIONS as usize;
    };
    let mut state = State::<T>::new([first]);
    let start = Instant::now() + first * T::SCALE;
    let steps = (1..=2 * REPETITIONS).map(|n| Duration::from_millis(1) * n * T::SCALE);
    state.deadlines = steps.map(|step| deadline(start, step)).collect();
    Prepared::new(state.warmed(run), run, |state| {
        assert_eq!(state.moved, state.deadlines.len());
        state.timers.assert_counts(2, 2);
    })
}

fn reset_to_later<T: Timers>() -> Prepared {
    reset::<T>(FAR, |start, step| start + step)
}

fn reset_to_earlier<T: Timers>() -> Prepared {
    /// Further than all steps.
    const VERY_FAR: Duration = Duration::from_secs(10_000);
    reset::<T>(VERY_FAR, |start, step| start - step)
}

fn replace_among_many<T: Timers>() -> Prepared {
    const MANY: u32 = 10_000;
    let mut random = fastrand::Rng::with_seed(1);
    let mut delay = || Duration::from_millis(random.u64(20_000..1_000_000));
    let mut state = State::<T>::new((0..MANY).map(|_| delay()));
    let delays: Vec<Duration> = (0..REPETITIONS).map(|_| delay() * T::SCALE).collect();
    state.replacements = delays.into_iter().map(|delay| (random.usize(1..=MANY as usize), delay)).collect();
    let run = |state: &mut State<T>| {
        let _context = state.runtime.enter();
        for &(place, delay) in &state.replacements {
            let place = &mut state.pending[place];
            place.set(state.timers.sleep(delay));
            assert_pending(place.as_mut(), &mut no_task());
        }
    };
    Prepared::new(state.warmed(run), run, |state| {
        state.timers.assert_counts(1 + MANY + 2 * REPETITIONS, 1 + MANY as usize);
    })
}

/// All that are due, one in each tick, by a clock that is moved past them. On a runtime whose clock is paused, because
/// there the driver runs on the thread that is counted.
#[cfg(feature = "test-util")]
fn fire<T: Timers>() -> Prepared {
    /// Until each bucket has been in use.
    const ROUNDS: u32 = 8;
    let run = |state: &mut State<T>| pass(&state.runtime, Duration::from_secs(2) * T::SCALE);
    let runtime = Builder::new_current_thread().enable_all().start_paused(true).build().expect("a runtime");
    // On the second level of ours, so that each moves down once.
    let delays = (0..REPETITIONS).map(|n| Duration::from_millis(1) * (100 + n));
    let mut state = State::<T>::on(runtime, delays.clone().skip(1));
    for _ in 0..ROUNDS {
        run(&mut state);
        let _context = state.runtime.enter();
        for (place, delay) in state.pending.iter_mut().zip(delays.clone()) {
            place.set(state.timers.sleep(delay * T::SCALE));
            assert_pending(place.as_mut(), &mut no_task());
        }
    }
    Prepared::new(state, run, |state| state.timers.assert_counts((1 + ROUNDS) * REPETITIONS, 0))
}

/// Moves a paused clock, and lets the runtime read it.
#[cfg(feature = "test-util")]
pub(crate) fn pass(runtime: &Runtime, time: Duration) {
    use std::future::poll_fn;
    use std::task::Poll;

    use tokio::time::advance;

    let context = runtime.enter();
    assert_pending(pin!(advance(time)), &mut no_task());
    drop(context);
    // `advance` itself waits for the runtime too, by what allocates.
    let mut has_waited = false;
    runtime.block_on(poll_fn(|cx| {
        cx.waker().wake_by_ref();
        if std::mem::replace(&mut has_waited, true) { Poll::Ready(()) } else { Poll::Pending }
    }));
}
