//! A stream whose reads and writes do not wait for longer than they may.

mod activity;
mod changes;
mod direction;
pub(crate) mod events;
mod io;
mod make;
mod packed;
mod waits;
mod wakers;

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use direction::Direction;
use pin_project_lite::pin_project;
use waits::Waits;

use crate::timers::tolerance::Tolerance;

pin_project! {
    /// A stream whose reads and writes do not wait for longer than they may, from
    /// [`TimingWheel::idle_guard`](crate::TimingWheel::idle_guard).
    ///
    /// | limit | bounds | passes |
    /// |---|---|---|
    /// | [read](Self::with_read_limit) | how long reads wait without a byte | although bytes are written |
    /// | [write](Self::with_write_limit) | how long writing, flushing and shutting down wait without progress | although bytes are read |
    /// | [idle](Self::with_idle_limit) | how long either waits while no byte passes in either direction | only in silence both ways |
    ///
    /// A wait begins when an operation finds the stream not ready. It ends when one in the same direction is ready. So the
    /// time in which nobody wants to read does not count: the peer is not slow then. A large buffer may take any time to
    /// write as long as the peer takes some of it within each limit.
    ///
    /// A ping that is written does not prolong the wait for its answer. So use the read limit to find a dead peer, and
    /// the idle limit for streams that may be quiet in one direction for long, as in a proxy: `copy_bidirectional`
    /// always reads both sides, and a read limit would cut a long download because the client sends nothing meanwhile.
    ///
    /// To act on silence rather than to fail, for instance to send a heartbeat, use [`idle_events`](Self::idle_events).
    ///
    /// A limit bounds a gap, not a request: a peer that sends a byte now and then can draw one out for ever. Put a
    /// [`timeout`](crate::TimingWheel::timeout) round the request for that.
    ///
    /// hyper's server waits for a read also while a handler runs. So set only the write limit under hyper, and
    /// `header_read_timeout` for reading.
    ///
    /// The stream is always asked before the deadline. Bytes that have arrived are read, even if nobody looked for them
    /// until the limit had passed.
    ///
    /// # Precision
    /// As [`sleep`](crate::TimingWheel::sleep): an operation never returns an error early. A limit of zero refuses to wait.
    /// With a [tolerance](Self::with_tolerance) the error is late by less than that. A task that is not polled for more
    /// than a second after the timer has woken it, as on a machine that was suspended, waits for another limit.
    ///
    /// # Errors
    /// When a limit has passed, the operation that waits returns an [`io::Error`](std::io::Error) of kind
    /// [`TimedOut`](std::io::ErrorKind::TimedOut) with an [`Elapsed`](crate::Elapsed) in it, whose text tells which
    /// limit and how long that is. The stream is left as it is, and the next operation starts anew. Where two tasks wait
    /// for halves of a stream, the idle limit fails one of them, and the wait of the other starts anew.
    ///
    /// If the wheel has ended, or has no place for one more timer, an operation that has to wait returns an error of
    /// kind [`Other`](std::io::ErrorKind::Other) with an [`Elapsed`](crate::Elapsed) that has a
    /// [`reason`](crate::Elapsed::reason). Without a limit it waits all the same.
    ///
    /// # Cancel safety
    /// That of the stream's own operations.
    ///
    /// Nothing tells a guard that an operation was dropped. So its timer wakes the task when half of the limit has passed,
    /// and at the end. An operation that is alive is polled then, and goes on with its wait, to the instant. If none is
    /// polled within a second, the operation was dropped: it no longer counts, and the next one has the whole limit.
    ///
    /// - In a `select!` loop that drops a read and begins another again and again, silence counts from the first of
    ///   them. The limit finds a dead peer there too.
    /// - A handler may drop a read and work for longer than the limit. The next read waits for the whole limit.
    /// - A handler that works for less than half of the limit leaves the rest of it to the next read.
    ///   [`restart`](Self::restart) gives that read the whole limit.
    ///
    /// # Panics
    /// Only if the stream does.
    ///
    /// # Cost
    /// An operation that is ready touches neither the clock nor the timer. One that has to wait reads the clock once,
    /// and nothing is allocated. The timer is registered by the first operation that has to wait, and stays for the next
    /// waits as long as it has a quarter of the limit left. It may come due when nothing is overdue. It then wakes the task
    /// that waited last, once. Dropping the guard removes it.
    ///
    /// A guard takes 64 bytes beside its stream, with one limit for reads, for writes, or the same for both, used by one
    /// task. It allocates once for different limits, an idle limit, idle events, or halves of [`tokio::io::split`] that
    /// wait in different tasks. With an idle limit or idle events an operation that is ready reads the clock.
    ///
    /// The idea to count from the first poll that has to wait is that of the crate `tokio-io-timeout`.
    #[must_use = "a guard does nothing unless the stream is used through it"]
    pub struct IdleGuard<S> {
        #[pin]
        stream: S,
        waits: Waits,
    }
}

impl<S> IdleGuard<S> {
    /// With a limit for reading; one of more than [583 years](crate::Sleep::deadline) never passes. See
    /// [`set_read_limit`](Self::set_read_limit).
    pub fn with_read_limit(mut self, limit: Duration) -> Self {
        self.set_read_limit(Some(limit));
        self
    }

    /// With a limit for writing; one of more than [583 years](crate::Sleep::deadline) never passes. See
    /// [`set_write_limit`](Self::set_write_limit).
    pub fn with_write_limit(mut self, limit: Duration) -> Self {
        self.set_write_limit(Some(limit));
        self
    }

    /// With a limit for silence in both directions, Netty's *all idle*; one of more than
    /// [583 years](crate::Sleep::deadline) never passes. See [`set_idle_limit`](Self::set_idle_limit).
    ///
    /// # Examples
    ///
    /// A proxy may copy a slow download for hours, and ends when nothing has passed for 30 seconds:
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::{io, time::Duration};
    /// use timingwheel::TimingWheel;
    /// use tokio::io::{copy_bidirectional, duplex};
    ///
    /// const LIMIT: Duration = Duration::from_secs(30);
    ///
    /// let wheel = TimingWheel::new();
    /// let ((_client, client), (_server, server)) = (duplex(64), duplex(64));
    /// let mut client = wheel.idle_guard(client).with_idle_limit(LIMIT);
    /// let mut server = wheel.idle_guard(server).with_idle_limit(LIMIT);
    /// let error = copy_bidirectional(&mut client, &mut server).await.unwrap_err();
    /// assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    /// assert_eq!(error.to_string(), "the stream has been idle for 30s, its limit");
    /// # }
    /// ```
    pub fn with_idle_limit(mut self, limit: Duration) -> Self {
        self.set_idle_limit(Some(limit));
        self
    }

    /// With a tolerance: errors may be late, by a time or by a share of the limit that has passed. Of very many
    /// connections the timers then cost less, and the wheel is turned less often: see [`Tolerance`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::time::Duration;
    /// use timingwheel::{TimingWheel, Tolerance};
    /// use tokio::io::{AsyncReadExt, duplex};
    /// use tokio::time::Instant;
    ///
    /// const LIMIT: Duration = Duration::from_secs(60);
    ///
    /// let (_peer, stream) = duplex(64);
    /// let guard = TimingWheel::new().idle_guard(stream).with_read_limit(LIMIT);
    /// let mut stream = guard.with_tolerance(Tolerance::share(0.125));
    /// let start = Instant::now();
    /// assert!(stream.read_u8().await.is_err());
    /// assert!((LIMIT..LIMIT + LIMIT / 8).contains(&start.elapsed()));
    /// # }
    /// ```
    pub fn with_tolerance(mut self, tolerance: Tolerance) -> Self {
        self.waits.set_tolerance(tolerance);
        self
    }

    /// The limit for reading. `None` also for one that 64 bits of nanoseconds do not hold.
    #[must_use]
    pub const fn read_limit(&self) -> Option<Duration> {
        self.waits.limit(Direction::Read)
    }

    /// The limit for writing. `None` also for one that 64 bits of nanoseconds do not hold.
    #[must_use]
    pub const fn write_limit(&self) -> Option<Duration> {
        self.waits.limit(Direction::Write)
    }

    /// The limit for silence in both directions. `None` also for one that 64 bits of nanoseconds do not hold.
    #[must_use]
    pub const fn idle_limit(&self) -> Option<Duration> {
        self.waits.idle_limit()
    }

    /// Sets the limit for reading, or takes it away.
    ///
    /// A read that waits now has the new limit, counted from when it began to wait. If it had none before, it is
    /// counted from the next poll that has to wait.
    ///
    /// # Examples
    ///
    /// A server that waits long for a request, but not for the rest of one:
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> std::io::Result<()> {
    /// use std::time::Duration;
    /// use timingwheel::TimingWheel;
    /// use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    /// use tokio::time::Instant;
    ///
    /// let (mut peer, stream) = duplex(64);
    /// let mut stream = TimingWheel::new().idle_guard(stream).with_read_limit(Duration::from_secs(60));
    /// peer.write_all(b"GET /").await?;
    ///
    /// let first = stream.read_u8().await?;
    /// assert_eq!(first, b'G');
    /// stream.set_read_limit(Some(Duration::from_secs(5)));
    /// let start = Instant::now();
    /// assert!(stream.read_to_end(&mut Vec::new()).await.is_err());
    /// assert_eq!(start.elapsed(), Duration::from_secs(5));
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_read_limit(&mut self, limit: Option<Duration>) {
        self.waits.set_limit(Direction::Read, limit);
    }

    /// Sets the limit for writing, or takes it away. As [`set_read_limit`](Self::set_read_limit).
    pub fn set_write_limit(&mut self, limit: Option<Duration>) {
        self.waits.set_limit(Direction::Write, limit);
    }

    /// Sets the limit for silence in both directions, or takes it away. Whoever waits without another limit is limited
    /// from the next poll on.
    ///
    /// The silence counts from the last byte in either direction. Where nobody waited then, it counts from when an
    /// operation began to wait, and where somebody waits already, from this call.
    pub fn set_idle_limit(&mut self, limit: Option<Duration>) {
        self.waits.set_idle_limit(limit);
    }

    /// Ends all waits, so that the next operation that has to wait has the whole limit.
    ///
    /// For a handler that has dropped a read to do something else: see
    /// [cancel safety](Self#cancel-safety). An operation that waits in another task goes on waiting. It is limited again from
    /// its next poll on.
    pub const fn restart(&mut self) {
        self.waits.restart_all();
    }

    /// As [`set_read_limit`](Self::set_read_limit), for a guard that is pinned.
    pub fn set_read_limit_pinned(self: Pin<&mut Self>, limit: Option<Duration>) {
        self.project().waits.set_limit(Direction::Read, limit);
    }

    /// As [`set_write_limit`](Self::set_write_limit), for a guard that is pinned.
    pub fn set_write_limit_pinned(self: Pin<&mut Self>, limit: Option<Duration>) {
        self.project().waits.set_limit(Direction::Write, limit);
    }

    /// As [`set_idle_limit`](Self::set_idle_limit), for a guard that is pinned.
    pub fn set_idle_limit_pinned(self: Pin<&mut Self>, limit: Option<Duration>) {
        self.project().waits.set_idle_limit(limit);
    }

    /// As [`restart`](Self::restart), for a guard that is pinned.
    pub fn restart_pinned(self: Pin<&mut Self>) {
        self.project().waits.restart_all();
    }

    /// The stream within.
    #[must_use]
    pub const fn get_ref(&self) -> &S {
        &self.stream
    }

    /// The stream within. What is read or written by this has no limit, and ends no wait.
    #[must_use]
    pub const fn get_mut(&mut self) -> &mut S {
        &mut self.stream
    }

    /// The stream within, pinned. What is read or written by this has no limit, and ends no wait.
    #[must_use]
    pub fn get_pin_mut(self: Pin<&mut Self>) -> Pin<&mut S> {
        self.project().stream
    }

    /// The stream within, now without limits.
    #[must_use]
    pub fn into_inner(self) -> S {
        self.stream
    }
}

impl<S: fmt::Debug> fmt::Debug for IdleGuard<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stream, waits: _ } = self;
        f.debug_struct("IdleGuard")
            .field("stream", stream)
            .field("read_limit", &self.read_limit())
            .field("write_limit", &self.write_limit())
            .field("idle_limit", &self.idle_limit())
            .finish_non_exhaustive()
    }
}
