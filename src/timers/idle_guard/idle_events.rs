//! Telling that a stream is idle, while it stays usable.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use super::IdleGuard;
use super::direction::Direction;
use super::last_use_for_events::LastUse;
use crate::error::Error;
use crate::timers::sleep::Sleep;
use crate::wheel::Nanos;

impl<S> IdleGuard<S> {
    /// Tells, again and again, when no byte has passed in either direction for `after`. No operation fails then.
    ///
    /// The events need no borrow of the guard, so a loop can wait for them and for a read at the same time. They are
    /// independent of all limits.
    ///
    /// # Panics
    /// If `after` is zero.
    ///
    /// # Examples
    ///
    /// A client that sends a heartbeat when it has sent nothing for 10 seconds, and gives up on a server that has sent
    /// nothing for 30:
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::{io, time::Duration};
    /// use timingwheel::TimingWheel;
    /// use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    ///
    /// let (_server, stream) = duplex(64);
    /// let mut stream = TimingWheel::new().idle_guard(stream).with_read_limit(Duration::from_secs(30));
    /// let mut idle = stream.write_idle_events(Duration::from_secs(10));
    /// let mut heartbeats = 0;
    /// let error = loop {
    ///     tokio::select! {
    ///         biased; // At 30 s both are due.
    ///         message = stream.read_u8() => match message {
    ///             Ok(_message) => {}
    ///             Err(error) => break error,
    ///         },
    ///         () = idle.next() => {
    ///             stream.write_u8(b'!').await.unwrap();
    ///             heartbeats += 1;
    ///         }
    ///     }
    /// };
    /// assert_eq!((error.kind(), heartbeats), (io::ErrorKind::TimedOut, 2));
    /// # }
    /// ```
    #[track_caller]
    pub fn idle_events(&mut self, after: Duration) -> IdleEvents {
        self.events(&[Direction::Read, Direction::Write], after)
    }

    /// As [`idle_events`](Self::idle_events), when no byte has been read for `after`, whatever was written.
    ///
    /// # Panics
    /// If `after` is zero.
    #[track_caller]
    pub fn read_idle_events(&mut self, after: Duration) -> IdleEvents {
        self.events(&[Direction::Read], after)
    }

    /// As [`idle_events`](Self::idle_events), when no byte has been written for `after`, whatever was read.
    ///
    /// # Panics
    /// If `after` is zero.
    #[track_caller]
    pub fn write_idle_events(&mut self, after: Duration) -> IdleEvents {
        self.events(&[Direction::Write], after)
    }

    #[track_caller]
    fn events(&mut self, directions: &'static [Direction], after: Duration) -> IdleEvents {
        assert!(!after.is_zero(), "idle events must come after at least 1ns, got {after:?}");
        let now = self.waits.timer.now();
        let mut timer = self.waits.timer.another();
        timer.move_to_at(now, now.after(after));
        IdleEvents { timer, last_use: self.waits.last_use(), directions, after }
    }
}

/// Tells when a stream is idle, from [`IdleGuard::idle_events`] and its kin.
///
/// The stream is idle when `after` has passed since the last byte, and again when `after` has passed since the last
/// event. A flush counts as a write if it had to wait. The events go on after the guard was dropped, because no byte
/// passes any more.
///
/// # Precision
/// As [`sleep`](crate::TimingWheel::sleep): never early. The stream counts as used when an operation on the guard is
/// ready, not when bytes arrive that nobody reads.
///
/// # Cost
/// One timer. Bytes do not move it, and it comes due at most once in each `after`.
#[must_use = "idle events do nothing unless they are awaited"]
pub struct IdleEvents {
    /// Never before `after` has passed since the last event, or the beginning.
    timer: Sleep,
    last_use: Arc<LastUse>,
    directions: &'static [Direction],
    after: Duration,
}

impl IdleEvents {
    /// Waits until the stream is idle.
    ///
    /// # Cancel safety
    /// Dropping this future loses no event.
    ///
    /// # Panics
    /// If the wheel has ended or is full. [`try_next`](Self::try_next) returns an error
    /// instead.
    pub async fn next(&mut self) {
        if let Err(error) = self.try_next().await {
            panic!("`IdleEvents` were awaited whose next one cannot come: {error}");
        }
    }

    /// As [`next`](Self::next), but returns an error where that would panic.
    ///
    /// # Cancel safety
    /// Dropping this future loses no event.
    ///
    /// # Errors
    /// If the wheel has ended or is full. The events can be awaited again.
    pub async fn try_next(&mut self) -> Result<(), Error> {
        poll_fn(|cx| self.poll_try_next(cx)).await
    }

    /// Polls for the next event, as [`try_next`](Self::try_next) does. Of several tasks only the last that polled is woken.
    ///
    /// # Errors
    /// As [`try_next`](Self::try_next).
    pub fn poll_try_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        loop {
            ready!(self.timer.poll_in_budget(cx))?;
            let due = self.due();
            if due <= self.timer.deadline_nanos() {
                let now = self.timer.now().max(due);
                self.timer.move_to_at(now, now.after(self.after));
                return Poll::Ready(Ok(()));
            }
            self.timer.move_to(due);
        }
    }

    /// When the stream will have been idle for long enough, as things are, or before the next event can be.
    fn due(&self) -> Nanos {
        let used = self.directions.iter().map(|&direction| self.last_use.last(direction));
        used.fold(Nanos::ZERO, Nanos::max).after(self.after)
    }
}

impl fmt::Debug for IdleEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { timer: _, last_use: _, directions, after } = self;
        f.debug_struct("IdleEvents")
            .field("directions", directions)
            .field("after", after)
            .finish_non_exhaustive()
    }
}
