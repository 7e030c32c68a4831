//! Statistics and health of a wheel. On a paused clock, or where a running clock makes no difference.

mod health;
mod lateness;
mod stats;

use std::task::{Context, Waker};
use std::time::Duration;

use timingwheel::{Sleep, TimingWheel};

use crate::{HOUR, armed, ms};

/// One that is pending, and may be late by an eighth of its delay.
fn tolerant(wheel: &TimingWheel, delay: Duration) -> Sleep {
    let mut sleep = wheel.sleep(delay).with_tolerance(delay / 8);
    assert!(sleep.poll_unconstrained(&mut Context::from_waker(Waker::noop())).is_pending());
    sleep
}

/// A wheel whose driver cannot run, because its runtime does not, with a timer that is due; and its runtime.
fn stuck() -> (TimingWheel, Sleep, tokio::runtime::Runtime) {
    let runtime = crate::runtime(0);
    let wheel = runtime.block_on(async { TimingWheel::new() });
    let sleep = armed(&wheel, ms(1));
    std::thread::sleep(ms(20));
    (wheel, sleep, runtime)
}
