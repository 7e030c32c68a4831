//! `wheel.idle_guard(stream)`.

mod io;
mod waits;
mod wakers;

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use pin_project_lite::pin_project;
use waits::{Direction, Waits};

use crate::handle::timing_wheel::TimingWheel;
use crate::timers::tolerance::Tolerance;

impl TimingWheel {
    /// Guards a stream against a peer that falls silent, or no longer takes what is sent to it: reads and writes that
    /// wait for too long return errors.
    ///
    /// There is no limit until one is set, and without one the stream is as it was: the wheel is not touched. Whether
    /// reads or writes are limited, or both, a guard has one timer, which stays registered from one wait to the next.
    /// It belongs to the shard of the thread that calls this, so make the guard in the task that will use it.
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
    /// assert_eq!(error.to_string(), "a read has waited for 30s without a byte, its limit");
    /// # Ok(())
    /// # }
    /// ```
    pub fn idle_guard<S>(&self, stream: S) -> IdleGuard<S> {
        IdleGuard { stream, waits: Waits::new(self.sleep_unset()) }
    }
}

pin_project! {
    /// A stream whose reads and writes do not wait for longer than they may, from [`TimingWheel::idle_guard`].
    ///
    /// The read limit is the longest that reads may wait without a byte: from when one finds nothing to read until one
    /// is ready. Time in which nobody wants to read does not count, as the peer is not slow then: a wait begins with a
    /// read, not when the last one has ended. It goes on when a read is dropped and another begun before there is a
    /// byte, so a read in a `select!` loop is limited too. The time between those counts: whoever drops a read that
    /// waits, to do something else for long, ends the wait by taking the limit away and setting it again.
    ///
    /// The write limit is the same for writing, flushing and shutting down, which wait as one: the longest without
    /// progress. A large buffer may take any time as long as the peer takes some of it within each limit.
    ///
    /// Each direction counts for itself: a connection that is busy one way only trips the other's limit if that waits
    /// too. And a limit bounds a gap, not a request, which a byte now and then can draw out for ever: put a
    /// [`timeout`](TimingWheel::timeout) round that.
    ///
    /// hyper's server waits for a read also while a handler runs. So set the write limit only under hyper, and
    /// `header_read_timeout` for reading.
    ///
    /// The stream is always asked before the deadline. Bytes that have arrived are read, even if nobody looked for them
    /// until the limit had passed.
    ///
    /// # Precision
    /// As [`sleep`](TimingWheel::sleep): an operation never returns an error early. A limit of zero refuses to wait.
    /// With a [tolerance](Self::with_tolerance) the error is late by less than that.
    ///
    /// # Errors
    /// When a limit has passed the operation that waits returns an [`io::Error`](std::io::Error) of kind
    /// [`TimedOut`](std::io::ErrorKind::TimedOut) with an [`Elapsed`](crate::Elapsed) in it, whose text tells which
    /// limit and how long that is. The stream is left as it is, and the next operation starts anew.
    ///
    /// If the wheel has ended, or has no place for one more timer, an operation that has to wait returns an error of
    /// kind [`Other`](std::io::ErrorKind::Other) with an [`Elapsed`](crate::Elapsed) that has a
    /// [`reason`](crate::Elapsed::reason). Without a limit it waits all the same.
    ///
    /// # Cancel safety
    /// That of the stream's own operations.
    ///
    /// # Panics
    /// Only if the stream does.
    ///
    /// # Cost
    /// An operation that is ready touches neither the clock nor the timer. One that has to wait reads the clock once,
    /// and nothing is allocated. The timer is registered by the first operation that has to wait, stays for the next
    /// waits as long as it has half of the limit left, and is moved then. So it may come due when nothing is overdue.
    /// It then wakes the task that waited last, once, and the next operation that has to wait registers it again.
    /// Dropping the guard removes it.
    ///
    /// The halves of [`tokio::io::split`] may wait in different tasks. For them a guard allocates once for each pair of
    /// tasks.
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

    /// As [`set_read_limit`](Self::set_read_limit), for a guard that is pinned.
    pub fn set_read_limit_pinned(self: Pin<&mut Self>, limit: Option<Duration>) {
        self.project().waits.set_limit(Direction::Read, limit);
    }

    /// As [`set_write_limit`](Self::set_write_limit), for a guard that is pinned.
    pub fn set_write_limit_pinned(self: Pin<&mut Self>, limit: Option<Duration>) {
        self.project().waits.set_limit(Direction::Write, limit);
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
            .finish_non_exhaustive()
    }
}
