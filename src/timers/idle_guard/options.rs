//! How the limits of a guard are set and asked for.

use std::pin::Pin;
use std::time::Duration;

use super::IdleGuard;
use super::direction::Direction;
use crate::timers::tolerance::Tolerance;

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

    /// With a tolerance: errors may be late, by a time or by a share of the limit that has passed. If there are very
    /// many connections, their timers then cost less, and the wheel is turned less often: see [`Tolerance`].
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

    /// The limit for reading. `None` if there is none, or if 64 bits of nanoseconds cannot hold it.
    #[must_use]
    pub const fn read_limit(&self) -> Option<Duration> {
        self.waits.limit(Direction::Read)
    }

    /// The limit for writing. `None` if there is none, or if 64 bits of nanoseconds cannot hold it.
    #[must_use]
    pub const fn write_limit(&self) -> Option<Duration> {
        self.waits.limit(Direction::Write)
    }

    /// The limit for silence in both directions. `None` if there is none, or if 64 bits of nanoseconds cannot hold it.
    #[must_use]
    pub const fn idle_limit(&self) -> Option<Duration> {
        self.waits.idle_limit()
    }

    /// Sets the limit for reading, or takes it away.
    ///
    /// A read that waits now gets the new limit, counted from when it began to wait. If no limit applied to that read
    /// before, the new limit counts from its next poll that has to wait.
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

    /// Sets the limit for silence in both directions, or takes it away. An operation that waits without any limit is
    /// limited from its next poll on.
    ///
    /// Silence begins when an operation begins to wait while none waits in the other direction. It begins anew with
    /// each byte that passes while an operation waits in the other direction. If there was no idle limit before, and an
    /// operation already waits, silence begins with this call.
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
}
