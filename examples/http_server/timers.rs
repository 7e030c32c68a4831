//! The timers that `--serve` needs, on the wheel, on tokio and without.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::rt::{Sleep, Timer};
use hyper::server::conn::http1;
use hyper_util::rt::TokioTimer;
use timingwheel::TimingWheel;

/// Bounds heads and answers, or does not.
pub(crate) trait Timers: Clone + Send + Sync + 'static {
    /// How long hyper waits for a head.
    fn bound_heads(&self, http: &mut http1::Builder, limit: Duration);

    /// The output of `work`, or `None` if it was cut off.
    fn timeout<F>(&self, limit: Duration, work: F) -> impl Future<Output = Option<F::Output>> + Send
    where
        F: Future<Output: Send> + Send;

    /// How many timers were armed so far; nothing where nobody counts them.
    fn armed(&self) -> Option<u64> {
        None
    }
}

impl Timers for TimingWheel {
    fn bound_heads(&self, http: &mut http1::Builder, limit: Duration) {
        http.timer(self.clone()).header_read_timeout(limit);
    }

    async fn timeout<F>(&self, limit: Duration, work: F) -> Option<F::Output>
    where
        F: Future<Output: Send> + Send,
    {
        self.timeout(limit, work).await.ok()
    }

    fn armed(&self) -> Option<u64> {
        Some(self.stats().armed)
    }
}

impl Timers for TokioTimer {
    fn bound_heads(&self, http: &mut http1::Builder, limit: Duration) {
        http.timer(self.clone()).header_read_timeout(limit);
    }

    async fn timeout<F>(&self, limit: Duration, work: F) -> Option<F::Output>
    where
        F: Future<Output: Send> + Send,
    {
        tokio::time::timeout(limit, work).await.ok()
    }
}

/// Timers that do nothing and never fire: with them hyper does all that a limit of heads takes, but for the timers.
#[derive(Clone, Debug)]
pub(crate) struct Never;

impl Timers for Never {
    fn bound_heads(&self, http: &mut http1::Builder, limit: Duration) {
        http.timer(Self).header_read_timeout(limit);
    }

    async fn timeout<F>(&self, _limit: Duration, work: F) -> Option<F::Output>
    where
        F: Future<Output: Send> + Send,
    {
        Some(work.await)
    }
}

impl Timer for Never {
    fn sleep(&self, _duration: Duration) -> Pin<Box<dyn Sleep>> {
        Box::pin(Self)
    }

    fn sleep_until(&self, _deadline: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(Self)
    }
}

impl Sleep for Never {}

impl Future for Never {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }
}

/// No limits at all.
#[derive(Clone, Debug)]
pub(crate) struct Unlimited;

impl Timers for Unlimited {
    fn bound_heads(&self, http: &mut http1::Builder, _limit: Duration) {
        http.header_read_timeout(None);
    }

    async fn timeout<F>(&self, _limit: Duration, work: F) -> Option<F::Output>
    where
        F: Future<Output: Send> + Send,
    {
        Some(work.await)
    }
}
