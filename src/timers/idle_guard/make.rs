//! `wheel.idle_guard(stream)`.

use super::IdleGuard;
use super::waits::Waits;
use crate::handle::timing_wheel::TimingWheel;
use crate::timers::sleep::Sleep;

impl TimingWheel {
    /// Guards a stream against a peer that falls silent, or no longer takes what is sent to it. Reads and writes that
    /// wait for too long return errors.
    ///
    /// A guard has no limit until one is set. Without a limit it does not touch the wheel. With one or with several
    /// it has one timer, which stays registered from one wait to the next. The timer belongs to the shard of the thread
    /// that calls this, so make the guard in the task that will use it.
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
        IdleGuard::new(stream, self.sleep_unset())
    }
}

impl<S> IdleGuard<S> {
    const fn new(stream: S, timer: Sleep) -> Self {
        Self { stream, waits: Waits::new(timer) }
    }
}
