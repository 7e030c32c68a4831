//! Faults of the runtime, the threads, the clock, users' code, the memory and the settings. With any of them nothing
//! hangs, nothing is early, no timer is lost, and the counts add up.
//!
//! Other modules have more: `wakers` those that panic when woken or dropped, `end_of_life` ends, `stalls` stalls of a
//! whole runtime, `paused_clock` clocks that are paused and resumed, `limits` settings beyond their limits, `max_pending` the
//! bound.

mod burst;
mod clock;
#[cfg(target_os = "linux")]
mod memory;
mod panics;
mod panics_in_clone;
mod runtimes;
mod settings;
mod threads;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Duration;

use timingwheel::{Sleep, Stats, TimingWheel};
use tokio::runtime::Runtime;
use tokio::time::Instant;
use tokio_test::assert_pending;

use crate::{DAY, ms, runtime};

/// Of tests on a clock that is not paused.
const HANG_GUARD: Duration = Duration::from_secs(60);

/// In which a few thousand timers are armed also where the machine is slow, or watched.
const TIME_TO_ARM: Duration = Duration::from_secs(1);

fn wheel_on(runtime: &Runtime) -> TimingWheel {
    let _guard = runtime.enter();
    TimingWheel::new()
}

/// Where the wheel is at rest, no timer is lost and none counted twice.
#[track_caller]
fn assert_adds_up(wheel: &TimingWheel) -> Stats {
    let stats = wheel.stats();
    assert_eq!(stats.armed, stats.fired + stats.cancelled + stats.pending as u64, "{stats:?}");
    assert_eq!(stats.pending, wheel.pending());
    stats
}

/// Waits for what another thread does.
#[track_caller]
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let start = std::time::Instant::now();
    while !is_so() {
        assert!(start.elapsed() < HANG_GUARD, "{what}: it hangs");
        thread::sleep(ms(1));
    }
}

/// A task that counts how many times it is woken, and how many times before `due`.
struct Counts {
    due: Instant,
    woken: AtomicUsize,
    early: AtomicUsize,
}

impl Counts {
    fn due_at(due: Instant) -> Arc<Self> {
        Arc::new(Self { due, woken: AtomicUsize::new(0), early: AtomicUsize::new(0) })
    }

    fn woken(&self) -> usize {
        self.woken.load(Ordering::SeqCst)
    }

    fn early(&self) -> usize {
        self.early.load(Ordering::SeqCst)
    }
}

impl Wake for Counts {
    fn wake(self: Arc<Self>) {
        self.early.fetch_add((Instant::now() < self.due).into(), Ordering::SeqCst);
        self.woken.fetch_add(1, Ordering::SeqCst);
    }
}

/// Registers a sleep for the task of `waker`.
#[track_caller]
fn register(mut sleep: Sleep, waker: &Waker) -> Sleep {
    assert_pending!(sleep.poll_unconstrained(&mut Context::from_waker(waker)));
    sleep
}
