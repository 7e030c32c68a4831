//! The tests of what the crate promises, one module for each subject. One program, because each more takes seconds to
//! link. Tests that need a process of their own are in `tests/alone`.

// Models take none of this: `tests/cfg_loom.rs` is for builds with that flag.
#![cfg(not(loom))]

// Shared by tests and fuzzers.
mod bytes;
mod deadlines;
mod hold;
mod model;
mod panic_place;
mod streams;

// The core, which knows no clock.
mod hierarchy_borders;
mod hierarchy_memory;
mod hierarchy_model;
mod hierarchy_tolerance;
mod layers;

// Timers.
mod deadlines_model;
mod delay_queue;
mod idle_guard;
mod interval;
mod sleep;
mod stream_adapters;
mod stream_like_tokio_stream;
mod stream_names;
mod time;
mod time_ends;
mod timeout;
mod tolerance;

// Wheels.
mod busy_runtime;
mod elsewhere;
mod end_of_life;
mod executors;
mod faults;
mod limits;
mod max_pending;
mod monitor;
mod paused_clock;
mod paused_clock_elsewhere;
mod profiles;
mod stalls;
mod turns;
mod wakers;

// Features.
#[cfg(feature = "hyper")]
mod hyper_timer;
#[cfg(feature = "metrics")]
mod metrics;
// `pause`, `resume` and `advance` are part of what is switched.
#[cfg(feature = "test-util")]
mod switch;
#[cfg(feature = "tracing")]
mod tracing;

use std::pin::Pin;
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use timingwheel::{Sleep, TimingWheel};
use tokio::runtime::{Builder, Runtime};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// How long a test waits for a thing that may never come.
const HANG_GUARD: Duration = Duration::from_secs(30);

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// On the real clock. 0 workers stand for the current-thread runtime.
fn runtime(workers: usize) -> Runtime {
    match workers {
        0 => Builder::new_current_thread().enable_all().build().unwrap(),
        _ => Builder::new_multi_thread().worker_threads(workers).enable_all().build().unwrap(),
    }
}

/// On a paused clock.
fn paused() -> Runtime {
    Builder::new_current_thread().enable_all().start_paused(true).build().unwrap()
}

/// Runs `f` on a thread of its own, which is in no runtime.
fn elsewhere<T: Send>(f: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(f).join().unwrap())
}

/// A sleep that is pending on its wheel, with a waker that nobody hears.
fn armed(wheel: &TimingWheel, delay: Duration) -> Sleep {
    let mut sleep = wheel.sleep(delay);
    assert!(Pin::new(&mut sleep).poll(&mut Context::from_waker(Waker::noop())).is_pending());
    sleep
}
