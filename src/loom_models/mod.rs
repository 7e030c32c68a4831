//! Models of the concurrent part. The model checker loom runs the smaller ones in every order of their threads, and the
//! larger ones in every order in which threads interrupt each other at most three times.
//!
//! | file | models |
//! |---|---|
//! | `alarm` | the agreement between turners and inserters |
//! | `firing` | cancelling, moving and dropping timers while a turn fires them |
//! | `leftovers` | the entries that dropped timers leave, and timers that reuse them |
//! | `wheel_end` | the end of a wheel, against timers and the driver |
//! | `sleep` | polling a `Sleep` |
//! | `watchdog` | the watchdog's thread, against turns and the end of a wheel |
//! | `random` | larger models |
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test --release -p timingwheel --lib loom_models
//! ```
//!
//! The models in `random` have more threads than loom can take. They run under shuttle, which takes orders at random.
//! shuttle can run the other models too:
//!
//! ```text
//! RUSTFLAGS="--cfg loom --cfg shuttle" cargo test --release -p timingwheel --lib loom_models
//! ```
//!
//! Time does not pass: the clock stands at hour 0, ticks are hours, and [`at`] names the hours to come. To let a later
//! hour come, a model turns its shard by hand. [`OVERDUE`] is a deadline before hour 0. A thread that read the clock
//! long ago registers a timer with it, and a turn fires that timer at once.
//!
//! Each execution of a model ends in one of its outcomes. The model passes only if loom reached all of them, because an
//! invariant that holds while nothing happens proves nothing. Each model names a change of the code that makes it fail.

mod alarm;
mod checker;
mod firing;
mod leftovers;
#[cfg(shuttle)]
mod random;
mod sleep;
mod watchdog;
mod wheel_end;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use crate::engine::alarm::Alarm;
use crate::engine::max_pending::MaxPending;
use crate::engine::shard::Shard;
use crate::engine::turn::{Driver, Turner};
use crate::handle::{TimingWheel, Wheel};
use crate::platform::clock::Clock;
use crate::telemetry::counters::Counters;
use crate::wheel::{Hierarchy, Key, Nanos, Progress, Resolution};

const HOUR: Duration = Duration::from_secs(60 * 60);

/// A batch for all timers of any model, and more.
const FULL_BATCH: usize = 8;

/// Deadlines up to `at(SLOTS)` stand at level 0, where a bucket expires at its deadline.
const SLOTS: u32 = 8;

/// A deadline just before the time at which the clock stands, which is the middle of time. So it is no stall.
const OVERDUE: Nanos = Nanos((1 << 63) - 1);

/// The time at which a thread that registers [`OVERDUE`] read the clock: an hour before, so that the entry stands at
/// level 0.
const LONG_AGO: Nanos = Nanos(OVERDUE.0 - 60 * 60 * 1_000_000_000);

/// Ticks of an hour, one of which ends at the time at which the clock stands: so [`at`] is always the end of one.
fn resolution() -> Resolution {
    Resolution::new(HOUR).expect("in range").with_a_border_at(at(0))
}

/// `hours` after the time at which the clock stands.
fn at(hours: u32) -> Nanos {
    Clock::that_pauses(false).now().after(HOUR * hours)
}

/// The parts of a wheel.
struct Parts {
    shards: Box<[Arc<Shard>]>,
    turner: Arc<Turner>,
    alarm: Arc<Alarm>,
    driver: PolledDriver,
}

impl Parts {
    fn new(shards: usize) -> Self {
        Self::with(Clock::that_pauses(false), shards)
    }

    fn with(clock: Clock, shards: usize) -> Self {
        let alarm = Arc::new(Alarm::new(clock.clone(), resolution(), Counters::of("model".into())));
        let shards: Box<[_]> = (0..shards).map(|_| shard_of(alarm.clone(), clock.clone(), None)).collect();
        let turner = Arc::new(Turner::new(&shards, alarm.clone(), clock));
        let driver = Driver { turner: turner.clone() };
        Self { shards, turner, alarm, driver: PolledDriver { driver, waker: CountingWaker::new() } }
    }
}

/// The handle of a wheel of these parts.
fn wheel(shards: Box<[Arc<Shard>]>, turner: Arc<Turner>) -> TimingWheel {
    let settings = TimingWheel::builder().settings;
    TimingWheel { wheel: Arc::new(Wheel { shards, turner, runtime: None, settings }) }
}

fn lone_alarm() -> Arc<Alarm> {
    Arc::new(Alarm::new(Clock::that_pauses(false), resolution(), Counters::of("model".into())))
}

/// A single shard. The model plays its turner.
fn shard(bound: Option<Arc<MaxPending>>) -> Arc<Shard> {
    shard_of(lone_alarm(), Clock::that_pauses(false), bound)
}

fn shard_of(alarm: Arc<Alarm>, clock: Clock, bound: Option<Arc<MaxPending>>) -> Arc<Shard> {
    let hierarchy = Hierarchy::new(resolution(), SLOTS as usize);
    Arc::new(Shard::new((0, 1), hierarchy, clock, alarm, bound))
}

/// Ends a single shard as its wheel does, and returns how many timers were pending.
fn end(shard: &Arc<Shard>) -> usize {
    Turner::new(std::slice::from_ref(shard), lone_alarm(), shard.clock.clone()).end()
}

/// Adds a timer that is not due.
fn register(shard: &Shard, deadline: Nanos, waker: &Arc<CountingWaker>) -> Key {
    let now = if deadline == OVERDUE { LONG_AGO } else { at(0) };
    let registered = shard.insert(now, deadline, waker.clone().into());
    registered.expect("not refused").expect("not due")
}

/// Moves a timer to another deadline, as its sleep does. Returns whether it is pending after that.
fn move_to(shard: &Shard, key: Key, from: Nanos, to: Nanos) -> bool {
    let waits = shard.reschedule(key, from, to);
    let is_pending = waits.is_ok();
    waits.err().flatten().into_iter().for_each(Waker::wake);
    is_pending
}

/// Does what a turner does with a shard at `now`, on a thread of its own.
fn spawn_turn(shard: &Arc<Shard>, now: Nanos, batch: usize) -> checker::thread::JoinHandle<()> {
    let shard = shard.clone();
    checker::thread::spawn(move || turn(&shard, now, batch))
}

/// Does what a turner does with a shard at `now`, until nothing more is due.
fn turn(shard: &Shard, now: Nanos, batch: usize) {
    loop {
        let mut expired = Vec::new();
        let turn = shard.turn(now, Nanos::MAX, batch, &mut expired);
        expired.into_iter().for_each(Waker::wake);
        if turn != Progress::More {
            break;
        }
    }
}

/// A driver that is polled by hand.
struct PolledDriver {
    driver: Driver,
    waker: Arc<CountingWaker>,
}

impl PolledDriver {
    fn poll(&mut self) -> Poll<()> {
        Pin::new(&mut self.driver).poll(&mut Context::from_waker(&self.waker.clone().into()))
    }

    /// Polls the driver for the first time, after which it sleeps.
    fn put_to_sleep(&mut self) {
        assert_eq!(self.poll(), Poll::Pending);
        assert!(!self.is_woken());
    }

    fn is_woken(&self) -> bool {
        self.waker.count() > 0
    }
}

/// Counts how many times it is woken.
#[derive(Default)]
struct CountingWaker(AtomicUsize);

impl CountingWaker {
    fn new() -> Arc<Self> {
        Arc::default()
    }

    fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Wake for CountingWaker {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}
