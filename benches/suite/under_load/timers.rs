//! What the cases ask of timers, and the two that give it. Both check that no timer is early.

use std::io;
use std::time::Duration;

use timingwheel::{Elapsed, IdleGuard, Stats, TimingWheel};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::{Instant, error};

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

pub(super) trait Timers: Clone + Send + Sync + 'static {
    type Guarded: Guarded;

    fn sleep(&self, duration: Duration) -> impl Future<Output = Fired> + Send;

    /// Nothing if `work` did not end within the limit.
    fn timeout<F>(&self, limit: Duration, work: F) -> impl Future<Output = Option<F::Output>> + Send
    where
        F: Future<Output: Send> + Send;

    /// A stream of which no read may wait for longer than the limit.
    fn guard(&self, stream: UnixStream, read_limit: Duration) -> Self::Guarded;

    /// What the timers count themselves.
    fn stats(&self) -> Option<Stats>;
}

pub(super) trait Guarded: Send + 'static {
    fn read_exact(&mut self, bytes: &mut [u8]) -> impl Future<Output = io::Result<()>> + Send;
    fn write_all(&mut self, bytes: &[u8]) -> impl Future<Output = io::Result<()>> + Send;
}

impl Timers for TimingWheel {
    type Guarded = IdleGuard<UnixStream>;

    async fn sleep(&self, duration: Duration) -> Fired {
        let sleep = self.sleep(duration);
        let deadline = sleep.deadline();
        sleep.await;
        Fired::now(deadline)
    }

    async fn timeout<F>(&self, limit: Duration, work: F) -> Option<F::Output>
    where
        F: Future<Output: Send> + Send,
    {
        let begun = Instant::now();
        let result: Result<_, Elapsed> = self.timeout(limit, work).await;
        in_time(result, begun + limit)
    }

    fn guard(&self, stream: UnixStream, read_limit: Duration) -> Self::Guarded {
        self.idle_guard(stream).with_read_limit(read_limit)
    }

    fn stats(&self) -> Option<Stats> {
        Some(self.stats())
    }
}

impl Guarded for IdleGuard<UnixStream> {
    async fn read_exact(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        AsyncReadExt::read_exact(self, bytes).await.map(drop)
    }

    async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        AsyncWriteExt::write_all(self, bytes).await
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

    async fn sleep(&self, duration: Duration) -> Fired {
        let sleep = tokio::time::sleep(duration);
        let deadline = sleep.deadline();
        sleep.await;
        Fired::now(deadline)
    }

    async fn timeout<F>(&self, limit: Duration, work: F) -> Option<F::Output>
    where
        F: Future<Output: Send> + Send,
    {
        let begun = Instant::now();
        let result: Result<_, error::Elapsed> = tokio::time::timeout(limit, work).await;
        in_time(result, begun + limit)
    }

    fn guard(&self, stream: UnixStream, read_limit: Duration) -> Self::Guarded {
        TimedReads { stream, limit: read_limit }
    }

    fn stats(&self) -> Option<Stats> {
        None
    }
}

impl Guarded for TimedReads {
    async fn read_exact(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        tokio::time::timeout(self.limit, self.stream.read_exact(bytes)).await?.map(drop)
    }

    async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await
    }
}

/// `deadline` is at most as late as the timeout's own, so a timeout that is early is seen.
fn in_time<T, E>(result: Result<T, E>, deadline: Instant) -> Option<T> {
    if result.is_err() {
        Fired::now(deadline);
    }
    result.ok()
}
