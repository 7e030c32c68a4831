//! `future.timeout_on(&wheel, d)`.

use std::time::Duration;

use tokio::time::Instant;

use crate::handle::TimingWheel;
use crate::timers::timeout::Timeout;

/// Timeouts as methods of every [`Future`].
///
/// The names end in `_on`, so that you can import this trait beside the `FutureExt` of tokio-util and of futures. For the
/// wheel of the current runtime pass [`time::wheel()`](crate::time::wheel).
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use std::time::Duration;
/// use timingwheel::{FutureTimeExt, TimingWheel, time};
/// use tokio::sync::oneshot;
///
/// let wheel = TimingWheel::new();
/// let (reply, call) = oneshot::channel();
/// reply.send("hello").unwrap();
/// assert_eq!(call.timeout_on(&wheel, Duration::from_secs(3)).await, Ok(Ok("hello")));
///
/// let (_reply, call) = oneshot::channel::<()>();
/// assert!(call.timeout_on(&time::wheel(), Duration::from_millis(5)).await.is_err());
/// # }
/// ```
pub trait FutureTimeExt: Future + Sized {
    /// Awaits this future, for at most `duration` from now. Precision, cancel safety, errors and panics are those of
    /// [`TimingWheel::timeout`].
    fn timeout_on(self, wheel: &TimingWheel, duration: Duration) -> Timeout<Self> {
        wheel.timeout(duration, self)
    }

    /// Awaits this future, until `deadline` at the latest, as [`TimingWheel::timeout_at`] does.
    fn timeout_at_on(self, wheel: &TimingWheel, deadline: Instant) -> Timeout<Self> {
        wheel.timeout_at(deadline, self)
    }
}

impl<F: Future> FutureTimeExt for F {}
