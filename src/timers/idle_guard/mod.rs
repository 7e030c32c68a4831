//! A stream with limits on how long its reads and writes may wait. `waits` times them.

mod waits;

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::{fmt, time::Duration};

use pin_project_lite::pin_project;
use tokio::io::{AsyncBufRead, AsyncRead, AsyncWrite, ReadBuf};

use crate::handle::TimingWheel;
use crate::wheel::Nanos;
use waits::Direction::{Read, Write};
use waits::Waits;

impl TimingWheel {
    /// Guards a stream against a peer that falls silent or no longer reads. Reads and writes that wait for too long return
    /// errors.
    ///
    /// A new guard has no limit, and does not touch the wheel. With a limit, the first wait in each direction arms a
    /// timer, which later waits use too. The timers belong to the [shard](crate::Builder::shards) of the thread that calls
    /// this, so make the guard in the task that will use it.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> std::io::Result<()> {
    /// use std::{io, time::Duration};
    /// use timingwheel::TimingWheel;
    /// use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    ///
    /// let wheel = TimingWheel::new();
    /// let (mut peer, stream) = duplex(64);
    /// let mut stream = wheel
    ///     .idle_guard(stream)
    ///     .with_read_limit(Duration::from_secs(30))
    ///     .with_write_limit(Duration::from_secs(10));
    ///
    /// peer.write_all(b"hello").await?;
    /// let mut greeting = [0; 5];
    /// stream.read_exact(&mut greeting).await?;
    ///
    /// let error = stream.read_u8().await.unwrap_err();
    /// assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    /// assert_eq!(error.to_string(), "no byte has been read for 30s, the read limit");
    /// # Ok(())
    /// # }
    /// ```
    pub fn idle_guard<S>(&self, stream: S) -> IdleGuard<S> {
        IdleGuard { stream, waits: Waits::new(self.sleep_unset()) }
    }
}

pin_project! {
    /// A stream with limits on how long reads and writes may wait, from
    /// [`TimingWheel::idle_guard`](crate::TimingWheel::idle_guard).
    ///
    /// | limit | bounds | expires |
    /// |---|---|---|
    /// | [read](Self::with_read_limit) | how long reads wait without a byte | even while bytes are written |
    /// | [write](Self::with_write_limit) | how long writing, flushing and shutting down wait without progress | even while bytes are read |
    /// | [idle](Self::with_idle_limit) | how long a read or a write waits while no byte passes in either direction | only while both directions are silent |
    ///
    /// A wait begins when an operation finds the stream not ready. It ends when an operation in the same direction is ready.
    /// So the time between two reads does not count, because the peer is not to blame for it. A large buffer may take any
    /// time to write as long as the peer takes some of it within each limit.
    ///
    /// - **To find a dead peer**, use the read limit: writing a ping does not prolong the wait for its answer.
    /// - **In a proxy**, use the idle limit. `copy_bidirectional` reads both sides, so a read limit would cut a long
    ///   download, during which the client sends nothing.
    /// - **To act on silence**, for instance to send a heartbeat, reset a [`Sleep`](crate::Sleep) with each message, and
    ///   wait for it beside the read.
    /// - **To bound a whole request**, put a [`timeout`](crate::TimingWheel::timeout) round it. A limit bounds a gap: a peer
    ///   that sends a byte now and then can prolong a request for ever.
    /// - **Under hyper**, set only the write limit, because hyper's server also waits for a read while a handler runs. For
    ///   reading set hyper's `header_read_timeout`.
    ///
    /// An operation polls the stream first, and looks at the deadline only if the stream is not ready. So bytes that have
    /// arrived are read, even if the limit has passed since.
    ///
    /// # Precision
    /// As [`sleep`](crate::TimingWheel::sleep): an operation never returns an error early. With a limit of zero, an operation
    /// that would wait fails at once. With a [tolerance](Self::with_tolerance) the error may be late by that. If the runtime
    /// stalls, the error comes when the runtime goes on, after all bytes that have arrived.
    ///
    /// # Errors
    /// When a limit has passed, the operation that waits returns an [`io::Error`](std::io::Error) of kind
    /// [`TimedOut`](std::io::ErrorKind::TimedOut) with an [`Elapsed`](crate::Elapsed) in it, which names the limit. The
    /// stream stays usable, and the next operation has the whole limit. If two tasks read and write, the idle limit returns
    /// an error in one of them, and the other's wait begins anew.
    ///
    /// If the wheel has ended or is full, an operation that has a limit and has to wait returns an error of kind
    /// [`Other`](std::io::ErrorKind::Other) with an [`Error`](crate::Error) in it.
    ///
    /// # Cancel safety
    /// The operations are as cancel safe as those of the stream.
    ///
    /// - A `select!` loop may drop its read and begin another again and again. Silence counts from the first of these reads,
    ///   so the limit finds a dead peer.
    /// - A handler may drop a read and work for longer than the limit. The next read has the whole limit.
    /// - If a handler drops a read and works for less than half of the limit, the next read has the rest of the limit.
    ///   Call [`restart`](Self::restart) to give it the whole limit.
    ///
    /// A guard cannot see that an operation was dropped. So its timer wakes the task when half of the limit has passed, and
    /// again at the end. A live operation is polled then, and its wait goes on. If none is polled within a second (or two
    /// ticks, if those are longer), the operation counts as dropped, and its wait ends.
    ///
    /// # Panics
    /// Only if the stream does.
    ///
    /// # Cost
    /// An operation that is ready touches neither the clock nor the timer, unless there is an idle limit and an operation
    /// waits in the other direction. An operation that has to wait reads the clock once. It moves the timer only if less
    /// than a quarter of the limit is left on it, so the timer may wake a task once for nothing. Dropping the guard removes
    /// the timers.
    ///
    /// A guard takes 80 bytes beside its stream. It allocates once: when an idle limit or a tolerance is set, or when
    /// the first write has to wait under a limit.
    #[must_use = "a guard does nothing unless the stream is used through it"]
    pub struct IdleGuard<S> {
        #[pin]
        stream: S,
        waits: Waits,
    }
}

impl<S> IdleGuard<S> {
    /// With a limit for reading; one of more than [292 years](crate::Sleep::deadline) never passes. See
    /// [`set_read_limit`](Self::set_read_limit).
    pub fn with_read_limit(mut self, limit: Duration) -> Self {
        self.set_read_limit(Some(limit));
        self
    }

    /// With a limit for writing; one of more than [292 years](crate::Sleep::deadline) never passes. See
    /// [`set_write_limit`](Self::set_write_limit).
    pub fn with_write_limit(mut self, limit: Duration) -> Self {
        self.set_write_limit(Some(limit));
        self
    }

    /// With a limit for silence in both directions, Netty's *all idle*; one of more than
    /// [292 years](crate::Sleep::deadline) never passes. See [`set_idle_limit`](Self::set_idle_limit).
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
    /// assert_eq!(error.to_string(), "no byte has passed for 30s, the idle limit");
    /// # }
    /// ```
    pub fn with_idle_limit(mut self, limit: Duration) -> Self {
        self.set_idle_limit(Some(limit));
        self
    }

    /// Lets errors be late by less than `tolerance`. If there are very many connections, their timers then cost less, and
    /// the wheel is turned less often: see [`Sleep::with_tolerance`](crate::Sleep::with_tolerance).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::time::Duration;
    /// use timingwheel::TimingWheel;
    /// use tokio::io::{AsyncReadExt, duplex};
    /// use tokio::time::Instant;
    ///
    /// const LIMIT: Duration = Duration::from_secs(60);
    ///
    /// let (_peer, stream) = duplex(64);
    /// let guard = TimingWheel::new().idle_guard(stream).with_read_limit(LIMIT);
    /// let mut stream = guard.with_tolerance(LIMIT / 8);
    /// let start = Instant::now();
    /// assert!(stream.read_u8().await.is_err());
    /// assert!((LIMIT..LIMIT + LIMIT / 8).contains(&start.elapsed()));
    /// # }
    /// ```
    pub fn with_tolerance(mut self, tolerance: Duration) -> Self {
        self.waits.set_tolerance(tolerance);
        self
    }

    /// Sets the limit for reading, or takes it away.
    ///
    /// A read that waits now gets the new limit, counted from when it began to wait. If no limit applied to that read
    /// before, the new limit counts from its next poll that has to wait.
    ///
    /// # Examples
    ///
    /// A server that waits long for a request, but not for the rest of it:
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
        self.waits.set_limit(Read, to_nanos(limit));
    }

    /// Sets the limit for writing, or takes it away. As [`set_read_limit`](Self::set_read_limit).
    pub fn set_write_limit(&mut self, limit: Option<Duration>) {
        self.waits.set_limit(Write, to_nanos(limit));
    }

    /// Sets the limit for silence in both directions, or takes it away.
    ///
    /// Silence begins when an operation begins to wait and none waits in the other direction. It begins anew when an
    /// operation is ready while one waits in the other direction. If there was no idle limit before, silence begins with
    /// this call, or, if the waiting operation had no limit at all, with its next poll.
    pub fn set_idle_limit(&mut self, limit: Option<Duration>) {
        self.waits.set_idle_limit(to_nanos(limit));
    }

    /// Ends all waits, so that the next operation that has to wait has the whole limit.
    ///
    /// For a handler that has dropped a read to do something else: see [cancel safety](Self#cancel-safety). If an operation
    /// waits in another task, its wait begins anew at its next poll.
    pub fn restart(&mut self) {
        self.waits.restart();
    }
}

impl<S> IdleGuard<S> {
    /// The stream within.
    #[must_use]
    pub const fn get_ref(&self) -> &S {
        &self.stream
    }

    /// The stream within. Reads and writes through this reference have no limit, and end no wait.
    #[must_use]
    pub const fn get_mut(&mut self) -> &mut S {
        &mut self.stream
    }

    /// The stream within, pinned. As with [`get_mut`](Self::get_mut), its reads and writes have no limit.
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

fn to_nanos(limit: Option<Duration>) -> Nanos {
    limit.map_or(Nanos::MAX, Nanos::from_duration)
}

impl<S: AsyncRead> AsyncRead for IdleGuard<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.project();
        this.waits.poll(Read, false, this.stream.poll_read(cx, buf), cx)
    }
}

impl<S: AsyncBufRead> AsyncBufRead for IdleGuard<S> {
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        let this = self.project();
        this.waits.poll(Read, false, this.stream.poll_fill_buf(cx), cx)
    }

    fn consume(self: Pin<&mut Self>, amount: usize) {
        self.project().stream.consume(amount);
    }
}

impl<S: AsyncWrite> AsyncWrite for IdleGuard<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.project();
        this.waits.poll(Write, false, this.stream.poll_write(cx, buf), cx)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.project();
        this.waits.poll(Write, true, this.stream.poll_flush(cx), cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.project();
        this.waits.poll(Write, false, this.stream.poll_shutdown(cx), cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.project();
        this.waits.poll(Write, false, this.stream.poll_write_vectored(cx, bufs), cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

impl<S: fmt::Debug> fmt::Debug for IdleGuard<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stream, waits } = self;
        let [read, write, idle] = [waits.limits[0], waits.limits[1], waits.idle_limit()]
            .map(|limit| (limit != Nanos::MAX).then(|| limit.to_duration()));
        f.debug_struct("IdleGuard")
            .field("stream", stream)
            .field("read_limit", &read)
            .field("write_limit", &write)
            .field("idle_limit", &idle)
            .finish_non_exhaustive()
    }
}
