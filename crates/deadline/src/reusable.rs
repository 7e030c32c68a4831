//! [`ReusableTimeout`]: for a connection that has one operation at a time.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use timingwheel::{Sleep, TimingWheel};
use tokio::time::Instant;

use crate::Ended;
use crate::deadline::instant_in;

/// Limits one operation after the other, as the owner of a connection makes them, with one timer that stays armed.
///
/// The timer is not moved for an operation whose limit is later than the timer: it fires at the old time, finds that
/// nothing is due, and is armed anew. So a thousand operations a second with a limit of a second each take a shard's lock
/// about once a second.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use std::time::Duration;
/// use timingwheel::TimingWheel;
/// use timingwheel_deadline::{Ended, ReusableTimeout};
/// use tokio::time::sleep;
///
/// let mut timeout = ReusableTimeout::new(&TimingWheel::new());
/// let limit = Duration::from_secs(1);
/// assert!(timeout.run_in(limit, sleep(Duration::from_millis(900))).await.is_ok());
/// assert!(timeout.run_in(limit, sleep(Duration::from_millis(900))).await.is_ok());
/// assert_eq!(timeout.run_in(limit, sleep(Duration::from_secs(2))).await, Err(Ended::Passed));
/// # }
/// ```
#[derive(Debug)]
pub struct ReusableTimeout {
    wheel: TimingWheel,
    sleep: Sleep,
}

impl ReusableTimeout {
    /// On `wheel`. Nothing is armed until an operation is pending.
    #[must_use]
    pub fn new(wheel: &TimingWheel) -> Self {
        Self { wheel: wheel.clone(), sleep: wheel.sleep(Duration::MAX) }
    }

    /// Runs `future` for at most `limit` from now.
    ///
    /// # Cancel safety
    /// Dropping it drops `future`. The next operation is limited as usual.
    ///
    /// # Errors
    /// [`Ended::Passed`] if the limit came first, [`Ended::Refused`] if the wheel refused the timer.
    pub async fn run_in<F: IntoFuture>(&mut self, limit: Duration, future: F) -> Result<F::Output, Ended> {
        let until = instant_in(&self.wheel, limit);
        self.run_until(until, future).await
    }

    /// Runs `future` until `instant` at the latest, as [`run_in`](Self::run_in). With the
    /// [instant](crate::Deadline::instant) of a request's deadline the operation ends with the request.
    ///
    /// # Errors
    /// As [`run_in`](Self::run_in).
    pub async fn run_until<F: IntoFuture>(
        &mut self,
        instant: Instant,
        future: F,
    ) -> Result<F::Output, Ended> {
        let mut future = pin!(future.into_future());
        let mut sleep = Pin::new(&mut self.sleep);
        if sleep.deadline() > instant {
            sleep.as_mut().reset(instant);
        }
        poll_fn(|cx| {
            if let Poll::Ready(output) = future.as_mut().poll(cx) {
                return Poll::Ready(Ok(output));
            }
            loop {
                match sleep.poll_try_wait(cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(Ended::Refused(error))),
                    Poll::Ready(Ok(())) if sleep.deadline() < instant => sleep.as_mut().reset(instant),
                    Poll::Ready(Ok(())) => return Poll::Ready(Err(Ended::Passed)),
                }
            }
        })
        .await
    }
}
