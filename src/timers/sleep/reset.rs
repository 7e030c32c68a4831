//! Moving a sleep's deadline.

use std::pin::Pin;
use std::time::Duration;

use tokio::time::Instant;

use super::{Sleep, State};
use crate::platform::clock::Clock;
use crate::wheel::Nanos;

impl Sleep {
    /// Moves the deadline, whether it has come or not, and keeps the task that waits for it.
    ///
    /// A timer that is moved later stays where it is in the wheel until that place comes up, so this is cheap enough to
    /// be called for each message of a connection. If the new deadline has passed, the timer wakes its task at once, or
    /// on a multi-thread runtime by the driver's next turn. In the latter case the next poll may still find it pending.
    /// An overdue timer may still wait for its tick to end.
    ///
    /// A sleep [with a tolerance](Self::with_tolerance) keeps the tolerance, which then counts for the new deadline. If
    /// the tolerance was a share, the sleep keeps the time that the share came to.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::{pin::pin, time::Duration};
    /// use timingwheel::TimingWheel;
    /// use tokio::{select, sync::mpsc, time::Instant};
    ///
    /// const IDLE: Duration = Duration::from_secs(60);
    ///
    /// let (sender, mut messages) = mpsc::channel(8);
    /// for message in ["hello", "bye"] {
    ///     sender.send(message).await.unwrap();
    /// }
    /// let mut idle = pin!(TimingWheel::new().sleep(IDLE));
    /// loop {
    ///     select! {
    ///         Some(_message) = messages.recv() => idle.as_mut().reset(Instant::now() + IDLE),
    ///         () = idle.as_mut() => break, // Nothing for a minute.
    ///     }
    /// }
    /// # }
    /// ```
    pub fn reset(self: Pin<&mut Self>, deadline: Instant) {
        let deadline = self.shard.clock().nanos(deadline);
        self.get_mut().move_to(deadline);
    }

    /// Moves the deadline to `after` from now, as [`reset`](Self::reset) does. With more than
    /// [583 years](Self::deadline) it never comes.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::{pin::pin, time::Duration};
    /// use timingwheel::TimingWheel;
    /// use tokio::time::Instant;
    ///
    /// let start = Instant::now();
    /// let mut sleep = pin!(TimingWheel::new().sleep(Duration::from_secs(1)));
    /// sleep.as_mut().await;
    /// sleep.as_mut().reset_after(Duration::from_secs(2));
    /// sleep.await;
    /// assert_eq!(start.elapsed(), Duration::from_secs(3));
    /// # }
    /// ```
    pub fn reset_after(self: Pin<&mut Self>, after: Duration) {
        let deadline = self.now().after(after);
        self.get_mut().move_to(deadline);
    }

    /// Moves the deadline to `to`, or to less than the tolerance after it.
    #[inline]
    pub(crate) fn move_to(&mut self, to: Nanos) {
        if self.state.has_grid() { self.move_to_grid(self.now(), to) } else { self.move_exactly(to) }
    }

    /// As [`move_to`](Self::move_to), for whoever has just looked at the clock: neither this nor the next poll does, unless the
    /// clock can be paused, and so may jump before that poll.
    pub(crate) fn move_to_at(&mut self, now: Nanos, to: Nanos) {
        if self.state.has_grid() { self.move_to_grid(now, to) } else { self.move_exactly_at(now, to) }
    }

    #[inline]
    pub(super) fn move_exactly(&mut self, to: Nanos) {
        if to < self.deadline { self.bring_forward(to, Clock::now) } else { self.postpone(to) }
    }

    pub(super) fn move_exactly_at(&mut self, now: Nanos, to: Nanos) {
        if to < self.deadline {
            self.bring_forward(to, |_| now);
        } else {
            self.postpone(to);
        }
        if !self.shard.is_pausable()
            && let State::Unregistered = self.state.unpack()
        {
            self.state.set(State::MadeAt(now));
        }
    }

    /// Moves the deadline to a later one, or to the one that it has.
    #[inline(always)]
    fn postpone(&mut self, to: Nanos) {
        self.deadline = to;
        match self.state.unpack() {
            State::Registered { key, .. } if self.shard.postpone(key, to) => {}
            _ => self.state.set(State::Unregistered),
        }
    }

    /// Moves the deadline to an earlier one.
    #[inline(always)]
    fn bring_forward(&mut self, to: Nanos, now: impl FnOnce(&Clock) -> Nanos) {
        let waits = match self.state.unpack() {
            State::Registered { key, .. } => match self.shard.bring_forward(key, self.deadline, to, now) {
                Ok(()) => {
                    self.deadline = to;
                    return;
                }
                Err(waits) => waits,
            },
            _ => None,
        };
        self.deadline = to;
        self.state.set(State::Unregistered);
        // Last, as it may panic. Who waited registers at its next poll.
        if let Some(waker) = waits {
            waker.wake();
        }
    }
}
