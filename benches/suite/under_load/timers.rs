//! What the cases ask of timers, and the two that give it. Both check that no timer is early.

use std::io;
use std::time::Duration;

use timingwheel::{IdleGuard, Stats, TimingWheel};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::Instant;

/// A timer that fired: its deadline, and how much later its task ran.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fired {
    pub(super) deadline: Instant,
    pub(super) late: Duration,
}

impl Fired {
    /// # Panics
    /// If it is early.
    fn now(deadline: Instant) -> Self {
        let late = Instant::now().checked_duration_since(deadline).expect("no timer is early");
        Self { deadline, late }
    }
}

/// Each asks the library for what has a deadline, and leaves to this trait what is done with it.
pub(super) trait Timers: Clone + Send + Sync + 'static {
    type Guarded: Guarded;

    /// A sleep with its deadline.
    fn make(&self, duration: Duration) -> (Instant, impl Future<Output = ()> + Send);

    /// Nothing if `work` did not end within the limit.
    fn limited<F>(&self, limit: Duration, work: F) -> impl Future<Output = Option<F::Output>> + Send
    where
        F: Future<Output: Send> + Send;

    /// A stream of which no read may wait for longer than the limit.
    fn guard(&self, stream: UnixStream, read_limit: Duration) -> Self::Guarded;

    /// What the timers count themselves.
    fn stats(&self) -> Option<Stats>;

    fn sleep(&self, duration: Duration) -> impl Future<Output = Fired> + Send {
        async move {
            let (deadline, sleep) = self.make(duration);
            sleep.await;
            Fired::now(deadline)
        }
    }

    /// As [`limited`](Self::limited), and checked.
    fn timeout<F>(&self, limit: Duration, work: F) -> impl Future<Output = Option<F::Output>> + Send
    where
        F: Future<Output: Send> + Send,
    {
        async move {
            // At most as late as the timeout's own deadline, so a timeout that is early is seen.
            let deadline = Instant::now() + limit;
            let output = self.limited(limit, work).await;
            if output.is_none() {
                Fired::now(deadline);
            }
            output
        }
    }
}

pub(super) trait Guarded: Send + 'static {
    type Stream: AsyncRead + AsyncWrite + Send + Unpin;

    fn stream(&mut self) -> &mut Self::Stream;

    fn read_exact(&mut self, bytes: &mut [u8]) -> impl Future<Output = io::Result<()>> + Send {
        async move { self.stream().read_exact(bytes).await.map(drop) }
    }

    fn write_all(&mut self, bytes: &[u8]) -> impl Future<Output = io::Result<()>> + Send {
        async move { self.stream().write_all(bytes).await }
    }
}

impl Timers for TimingWheel {
    type Guarded = IdleGuard<UnixStream>;

    fn make(&self, duration: Duration) -> (Instant, impl Future<Output = ()> + Send) {
        let sleep = self.sleep(duration);
        (sleep.deadline(), sleep)
    }

    async fn limited<F>(&self, limit: Duration, work: F) -> Option<F::Output>
    where
        F: Future<Output: Send> + Send,
    {
        self.timeout(limit, work).await.ok()
    }

    fn guard(&self, stream: UnixStream, read_limit: Duration) -> Self::Guarded {
        self.idle_guard(stream).with_read_limit(read_limit)
    }

    fn stats(&self) -> Option<Stats> {
        Some(self.stats())
    }
}

impl Guarded for IdleGuard<UnixStream> {
    type Stream = Self;

    fn stream(&mut self) -> &mut Self {
        self
    }
}

/// The timers of the runtime, behind `tokio::time`.
#[derive(Clone, Copy, Debug)]
pub(super) struct TokioTime;

/// A stream with a timeout round each read.
pub(super) struct TimedReads {
    stream: UnixStream,
    limit: Duration,
}

impl Timers for TokioTime {
    type Guarded = TimedReads;

    fn make(&self, duration: Duration) -> (Instant, impl Future<Output = ()> + Send) {
        let sleep = tokio::time::sleep(duration);
        (sleep.deadline(), sleep)
    }

    async fn limited<F>(&self, limit: Duration, work: F) -> Option<F::Output>
    where
        F: Future<Output: Send> + Send,
    {
        tokio::time::timeout(limit, work).await.ok()
    }

    fn guard(&self, stream: UnixStream, read_limit: Duration) -> Self::Guarded {
        TimedReads { stream, limit: read_limit }
    }

    fn stats(&self) -> Option<Stats> {
        None
    }
}

impl Guarded for TimedReads {
    type Stream = UnixStream;

    fn stream(&mut self) -> &mut UnixStream {
        &mut self.stream
    }

    async fn read_exact(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        tokio::time::timeout(self.limit, self.stream.read_exact(bytes)).await?.map(drop)
    }
}
