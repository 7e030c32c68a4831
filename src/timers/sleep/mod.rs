//! The future of `wheel.sleep(d)`.

mod embedded;
mod make;
mod poll;
mod reset;
mod state;
mod tolerant;

use std::fmt;
use std::future::poll_fn;
use std::task::Waker;
use std::time::Duration;

use futures::future::FusedFuture;
use tokio::time::Instant;

use crate::engine::shard::ShardRef;
use crate::error::Error;
use crate::platform::waker_id::WakerId;
use crate::wheel::{Key, Nanos};
use state::{Packed, State};

/// The future of [`TimingWheel::sleep`](crate::TimingWheel::sleep) and
/// [`TimingWheel::sleep_until`](crate::TimingWheel::sleep_until).
///
/// It may be sent to other threads, and polled and dropped within or outside of any runtime. It is `Unpin`: nothing
/// points at it, so `&mut sleep` can be awaited again and again, as in a `select!` loop. A sleep that is polled again
/// after it was ready is ready again.
#[must_use = "a sleep does nothing unless it is awaited or polled"]
pub struct Sleep {
    shard: ShardRef,
    deadline: Nanos,
    state: Packed,
}

impl Sleep {
    /// The instant at which this is ready.
    ///
    /// A wheel counts time in 64 bits of nanoseconds, which are 584 years. Its count begins a year before the wheel was
    /// made, so 583 years are left. A later deadline never comes, and is shown as the end of those 583 years.
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
    /// If the wheel ended before the deadline, or if the wheel was full.
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
            // Ready or not: one whose deadline has passed needs no permit.
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
