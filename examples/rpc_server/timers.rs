//! The timers that the program needs: the wheel's and tokio's.

use std::pin::Pin;
use std::time::Duration;

use timingwheel::{Stats, TimingWheel};
use tokio::time::Instant;

/// The source of all timers of a run.
pub(crate) trait Timers: Clone + Send + Sync + 'static {
    type Sleep: Sleep;

    fn sleep(&self, duration: Duration) -> Self::Sleep;

    /// Runs `work` for at most `limit`: the deadline, and the future of its output, or of `None` if it was cut off.
    fn timeout<F>(
        &self,
        limit: Duration,
        work: F,
    ) -> (Instant, impl Future<Output = Option<F::Output>> + Send)
    where
        F: Future<Output: Send> + Send;

    /// The timers' own counts, if they have any.
    fn stats(&self) -> Option<Stats>;
}

/// A timer that can be moved.
pub(crate) trait Sleep: Future<Output = ()> + Send {
    fn deadline(&self) -> Instant;
    fn reset(self: Pin<&mut Self>, deadline: Instant);
}

impl Timers for TimingWheel {
    type Sleep = timingwheel::Sleep;

    fn sleep(&self, duration: Duration) -> Self::Sleep {
        self.sleep(duration)
    }

    fn timeout<F>(
        &self,
        limit: Duration,
        work: F,
    ) -> (Instant, impl Future<Output = Option<F::Output>> + Send)
    where
        F: Future<Output: Send> + Send,
    {
        let call = self.timeout(limit, work);
        (call.deadline(), async { call.await.ok() })
    }

    fn stats(&self) -> Option<Stats> {
        Some(self.stats())
    }
}

impl Sleep for timingwheel::Sleep {
    fn deadline(&self) -> Instant {
        self.deadline()
    }

    fn reset(self: Pin<&mut Self>, deadline: Instant) {
        self.reset(deadline);
    }
}

/// The timers of `tokio::time`, which are the runtime's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TokioTime;

impl Timers for TokioTime {
    type Sleep = tokio::time::Sleep;

    fn sleep(&self, duration: Duration) -> Self::Sleep {
        tokio::time::sleep(duration)
    }

    fn timeout<F>(
        &self,
        limit: Duration,
        work: F,
    ) -> (Instant, impl Future<Output = Option<F::Output>> + Send)
    where
        F: Future<Output: Send> + Send,
    {
        // `timeout_at`, because tokio's timeout does not tell its deadline.
        let deadline = Instant::now() + limit;
        let call = tokio::time::timeout_at(deadline, work);
        (deadline, async { call.await.ok() })
    }

    fn stats(&self) -> Option<Stats> {
        None
    }
}

impl Sleep for tokio::time::Sleep {
    fn deadline(&self) -> Instant {
        self.deadline()
    }

    fn reset(self: Pin<&mut Self>, deadline: Instant) {
        self.reset(deadline);
    }
}
