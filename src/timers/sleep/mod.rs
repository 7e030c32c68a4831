//! The future of `wheel.sleep(d)`.

mod for_owners;
mod make;
mod poll;
mod state;
mod tolerant;

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Waker;
use std::time::Duration;

use futures::future::FusedFuture;
use tokio::time::Instant;

use crate::engine::shard::ShardRef;
use crate::error::Error;
use crate::platform::clock::Clock;
use crate::platform::waker_id::WakerId;
use crate::wheel::{Key, Nanos};
use state::{Packed, State};

/// The future of [`TimingWheel::sleep`](crate::TimingWheel::sleep) and
/// [`TimingWheel::sleep_until`](crate::TimingWheel::sleep_until).
///
/// It may be sent to other threads, and polled and dropped within or outside of any runtime. It is `Unpin`:
/// nothing points at it, so `&mut sleep` can be awaited again and again, as in a `select!` loop. Polled after it
/// was ready it is ready again.
#[must_use = "a sleep does nothing unless it is awaited or polled"]
pub struct Sleep {
    shard: ShardRef,
    deadline: Nanos,
    state: Packed,
}

impl Sleep {
    /// The instant at which this is ready.
    ///
    /// A wheel counts 64 bits of nanoseconds, which are 584 years, from a year before it was made: 583 years from then
    /// on. A deadline beyond them never comes, and is shown as their end.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.shard.clock().instant(self.deadline)
    }

    /// Whether the deadline has come, as far as the wheel knows: its driver fired the timer, or a poll found it
    /// due. A sleep that was never polled has not elapsed, whatever its deadline.
    #[must_use]
    pub fn is_elapsed(&self) -> bool {
        match self.state.unpack() {
            State::MadeAt(_) | State::RoundedAt(_) | State::Unregistered => false,
            State::Registered { .. } => self.has_come_to(self.deadline),
            State::Due | State::Elapsed => true,
        }
    }

    /// Moves the deadline, whether it has come or not, and keeps the task that waits for it.
    ///
    /// Moved later, the timer stays where it is in the wheel until that place comes up, so this is cheap enough
    /// to be called for each message of a connection. Moved back to an instant that has passed, it wakes its task, at
    /// once or, on a multi-thread runtime, by the driver's next turn: then the next poll may still find it pending.
    /// An overdue timer may still wait for its tick to end.
    ///
    /// A sleep [with a tolerance](Self::with_tolerance) keeps it: the new deadline may be missed by as much as the one
    /// before. A tolerance that was a share stays the time that it came to.
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

    /// As [`move_to`](Self::move_to), for whoever has just looked at the clock: neither this nor the next poll does.
    pub(crate) fn move_to_at(&mut self, now: Nanos, to: Nanos) {
        if self.state.has_grid() { self.move_to_grid(now, to) } else { self.move_exactly_at(now, to) }
    }

    #[inline]
    fn move_exactly(&mut self, to: Nanos) {
        if to < self.deadline { self.bring_forward(to, Clock::now) } else { self.postpone(to) }
    }

    fn move_exactly_at(&mut self, now: Nanos, to: Nanos) {
        if to < self.deadline {
            self.bring_forward(to, |_| now);
        } else {
            self.postpone(to);
        }
        if let State::Unregistered = self.state.unpack() {
            self.state.set(State::MadeAt(now));
        }
    }

    /// Moves the deadline to a later one, or to the one that it has.
    #[inline(always)]
    fn postpone(&mut self, to: Nanos) {
        self.deadline = to;
        match self.state.unpack() {
            State::Registered { key, .. } if self.shard.postpone(key, to) => {}
            _ => self.state = State::Unregistered.pack(),
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

    /// Apart, so that to drop one that was never registered takes no register from the caller.
    #[inline(never)]
    fn discard(&self, key: Key, waker: Option<WakerId>) {
        self.shard.discard(key, self.deadline, waker);
    }

    pub(crate) const fn deadline_nanos(&self) -> Nanos {
        self.deadline
    }

    /// The time by the wheel's clock.
    pub(crate) fn now(&self) -> Nanos {
        self.shard.clock().now()
    }

    /// How long a tick of the wheel is.
    pub(crate) fn tick(&self) -> Duration {
        self.shard.resolution().tick()
    }

    /// Waits as the future does, but returns an error where that would panic. It spends a unit of the task's cooperative
    /// budget too, so a loop over timers that are due lets other tasks run.
    ///
    /// # Cancel safety
    /// The sleep can be awaited again, by this or otherwise.
    ///
    /// # Errors
    /// If the wheel ended before the deadline, or if there was no place for one more timer.
    pub async fn try_wait(&mut self) -> Result<(), Error> {
        poll_fn(|cx| self.poll_in_budget(cx)).await
    }

    /// Whether the driver has come to `deadline`, which need not be this sleep's.
    pub(crate) fn has_come_to(&self, deadline: Nanos) -> bool {
        self.shard.has_reached(deadline) && !self.shard.ended_before(deadline)
    }

    /// Refuses what could not run. With a bound the timer is registered, for no task as yet.
    fn try_admit(mut self) -> Result<Self, Error> {
        if self.shard.has_ended() {
            return Err(Error::shutdown());
        }
        if self.shard.is_bounded() {
            // Ready or not: one whose deadline has passed needs no place.
            let _ = self.register(self.now(), Waker::noop())?;
        }
        Ok(self)
    }
}

impl FusedFuture for Sleep {
    fn is_terminated(&self) -> bool {
        matches!(self.state.unpack(), State::Elapsed)
    }
}

impl Drop for Sleep {
    #[inline]
    fn drop(&mut self) {
        if let State::Registered { key, waker } = self.state.unpack() {
            self.discard(key, waker);
        }
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { shard: _, deadline: _, state } = self;
        f.debug_struct("Sleep")
            .field("deadline", &self.deadline())
            .field("state", &state.unpack())
            .finish_non_exhaustive()
    }
}
