//! A drop-in replacement for `tokio::time`, on a wheel: change `use tokio::time` to `use timingwheel::time`.
//!
//! The functions here use the wheel of the current runtime. An interval takes that wheel when it is made, a sleep at
//! its first poll, a timeout when its future is first found pending, and a [`DelayQueue`] at its first insertion. The
//! wheel is made with the default settings when it is first needed, and ends with the runtime. To use other settings,
//! call [`set_wheel`] before anything else here. [`wheel`] returns the wheel's handle.
//!
//! ```
//! use timingwheel::time::{self, Duration};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! time::sleep(Duration::from_millis(5)).await;
//! assert!(time::timeout(Duration::from_secs(1), async { 42 }).await.is_ok());
//! # }
//! ```
//!
//! The page [`migration`](crate::migration) has the steps of switching, and every difference.
//!
//! # Long durations
//!
//! Any duration may be given, but the period of an interval must not be zero. As with tokio, `sleep`, the period of an
//! interval and the resets of an interval are capped at 30 years. A timeout, or an item of a [`DelayQueue`], of more than
//! [292 years](Sleep::deadline) never comes. The methods of a [`TimingWheel`] have only the limit of 292 years, with one
//! exception: [`Interval::reset_after`] is capped at 30 years.

use crate::handle::TimingWheel;
use crate::platform::clock::LONGEST;
pub use crate::runtime_wheel::SetWheelError;
use crate::runtime_wheel::{set, with_current};
pub use crate::timers::delay_queue::DelayQueue;
use crate::timers::interval::assert_period;
pub use crate::timers::{interval::Interval, sleep::Sleep, timeout::Timeout};
pub use tokio::time::{Duration, Instant, MissedTickBehavior};
#[cfg(feature = "test-util")]
pub use tokio::time::{advance, pause, resume};

/// The errors, by the names of `tokio::time::error`.
pub mod error {
    pub use crate::error::{Elapsed, Error};
}

/// The types of a [`DelayQueue`], by the names of `tokio_util::time::delay_queue`.
pub mod delay_queue {
    pub use crate::timers::delay_queue::{Expired, Key};
}

/// Waits for `duration` from now, or for 30 years if that is less. See [`TimingWheel::sleep`].
///
/// The timer belongs to the runtime on which it is first polled, or given a tolerance.
///
/// # Panics
/// This call never panics. Polling the future panics if its wheel refuses it, as with [`TimingWheel::sleep`]; if it is first
/// polled outside of every tokio runtime; and if that runtime's wheel has to be made and
/// [cannot be](crate::Builder::build).
pub fn sleep(duration: Duration) -> Sleep {
    Sleep::by_name(Instant::now(), duration.min(LONGEST))
}

/// Waits until `deadline`. See [`TimingWheel::sleep_until`].
///
/// # Panics
/// As [`sleep`].
pub fn sleep_until(deadline: Instant) -> Sleep {
    Sleep::by_name(deadline, Duration::ZERO)
}

/// Awaits `future` for at most `duration` from now. See [`TimingWheel::timeout`].
///
/// # Panics
/// This call never panics. Polling the future panics where it is first found pending outside of every tokio runtime, or where
/// that runtime's wheel has to be made and [cannot be](crate::Builder::build).
pub fn timeout<F: IntoFuture>(duration: Duration, future: F) -> Timeout<F::IntoFuture> {
    Timeout::new(Sleep::by_name(Instant::now(), duration), future)
}

/// Awaits `future` until `deadline` at the latest. See [`TimingWheel::timeout_at`].
///
/// # Panics
/// As [`timeout`].
pub fn timeout_at<F: IntoFuture>(deadline: Instant, future: F) -> Timeout<F::IntoFuture> {
    Timeout::new(Sleep::by_name(deadline, Duration::ZERO), future)
}

/// Ticks at once, and then every `period`. A period of more than 30 years counts as 30 years. See
/// [`TimingWheel::interval`].
///
/// # Panics
/// If `period` is zero, and as [`wheel`].
#[track_caller]
pub fn interval(period: Duration) -> Interval {
    // Here rather than in the closure, so that the panic names the caller.
    assert_period(period);
    with_current(|wheel| wheel.interval(period.min(LONGEST)))
}

/// Ticks at `start`, and then every `period`. A period of more than 30 years counts as 30 years. See
/// [`TimingWheel::interval_at`].
///
/// # Panics
/// If `period` is zero, and as [`wheel`].
#[track_caller]
pub fn interval_at(start: Instant, period: Duration) -> Interval {
    assert_period(period);
    with_current(|wheel| wheel.interval_at(start, period.min(LONGEST)))
}

/// The wheel of the current runtime, which is made if there is none yet. Pass it to methods that take a wheel, such as
/// those of [`FutureTimeExt`](crate::FutureTimeExt) and [`StreamTimeExt`](crate::stream::StreamTimeExt).
///
/// All code of the runtime shares it. [Shutting it down](TimingWheel::shutdown) ends everything that is pending on it. The
/// next call here makes a new wheel with the same settings. Old handles stay with the old wheel.
///
/// # Examples
///
/// ```
/// use timingwheel::time::{self, Duration};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let wheel = time::wheel();
/// wheel.shutdown();
/// time::sleep(Duration::from_millis(1)).await;
/// assert!(wheel.try_sleep(Duration::from_millis(1)).unwrap_err().is_shutdown());
/// # }
/// ```
///
/// # Panics
/// If this thread is not within a tokio runtime, or if that runtime's wheel has to be made and
/// [cannot be](crate::Builder::build).
#[must_use]
#[track_caller]
pub fn wheel() -> TimingWheel {
    with_current(TimingWheel::clone)
}

/// Makes `wheel` the wheel of the current runtime. Call this before you use anything else of this module on that
/// runtime.
///
/// A wheel's driver stays on the runtime on which the wheel was made, so make `wheel` on this runtime. `wheel` may take
/// the place of a wheel that was [shut down](TimingWheel::shutdown).
///
/// # Errors
/// Gives the wheel back if the runtime has a wheel that has not ended, if the given wheel is on another runtime or has
/// ended, or if this thread is not within a runtime.
///
/// # Examples
///
/// ```
/// use timingwheel::{TimingWheel, time::{self, Duration}};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let wheel = TimingWheel::builder().tick(Duration::from_micros(100)).build()?;
/// time::set_wheel(wheel)?;
/// time::sleep(Duration::from_micros(300)).await;
/// # Ok(())
/// # }
/// ```
pub fn set_wheel(wheel: TimingWheel) -> Result<(), SetWheelError> {
    set(wheel)
}
