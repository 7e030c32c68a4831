//! How late does a timer fire: on a wheel with a tick of 1 ms, on one with 100 µs, and on `tokio::time`?
//!
//! `cargo run --release -p timingwheel-examples --example sleep`, or with `-- --help` for the settings and `-- --short`
//! for a quick look.
//!
//! The functions below sleep, and return how late they end: by the timer's lateness and the time that the machine takes
//! to wake a task. Copy them to measure your machine. The rest lets many tasks sleep for random times, on one timer after
//! the other, in several rounds. The closing table has all timers side by side. If one fired early, or if the wheels' own
//! counts do not agree with the tasks', the program says so and exits with 1.

use std::time::{Duration, Instant};

use timingwheel::{BuildError, TimingWheel};

/// A wheel, which may be turned once in a `tick`.
fn wheel_with(tick: Duration) -> Result<TimingWheel, BuildError> {
    TimingWheel::builder().tick(tick).build()
}

/// How late a sleep ended on a wheel. `None`: it was early, which never happens.
async fn lateness_on(wheel: &TimingWheel, delay: Duration) -> Option<Duration> {
    let deadline = Instant::now() + delay;
    wheel.sleep(delay).await;
    Instant::now().checked_duration_since(deadline)
}

/// The same on tokio's timers.
async fn lateness_on_tokio(delay: Duration) -> Option<Duration> {
    let deadline = Instant::now() + delay;
    tokio::time::sleep(delay).await;
    Instant::now().checked_duration_since(deadline)
}

#[path = "../shared/limits.rs"]
mod limits;
mod load;

#[tokio::main]
async fn main() -> std::process::ExitCode {
    load::main().await
}
