//! `wheel.sleep(d)` and its kin.

use std::time::Duration;

use tokio::time::Instant;

use super::{Sleep, State};
use crate::engine::shard::ShardRef;
use crate::error::Error;
use crate::handle::timing_wheel::TimingWheel;
use crate::wheel::Nanos;

impl TimingWheel {
    /// Waits for `duration` from now.
    ///
    /// The deadline is fixed by this call; the timer is registered when the future is first polled. With a
    /// `duration` of more than [583 years](Sleep::deadline) it waits for ever.
    ///
    /// # Precision
    /// Never early. [Precision](TimingWheel#precision) says how late. A `duration` of zero is ready at the first poll.
    ///
    /// # Cancel safety
    /// Dropping the future removes the timer, and nothing else is lost. To save work, up to 14 dropped timers in each
    /// shard keep their wakers and their memory, for at most a second. The next timer takes over the entry of one of
    /// them. The others, at most 13, were dropped on another thread than the one that made them, or were among the
    /// oldest of tens of thousands. The thread that next polls or drops a timer may then drop those wakers too; it does
    /// not see their panics. On a wheel with a bound, and where the clock can be paused, nothing is kept.
    ///
    /// # Panics
    /// This call never panics. Awaiting the future panics if its wheel has ended before the deadline, or if
    /// [`max_pending`](crate::Builder::max_pending) timers are pending when it is first polled; the message names the line
    /// of the `.await`. [`try_sleep`](Self::try_sleep) and [`Sleep::try_wait`] return errors instead.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use std::time::Duration;
    /// use timingwheel::TimingWheel;
    ///
    /// let wheel = TimingWheel::new();
    /// let start = tokio::time::Instant::now();
    /// wheel.sleep(Duration::from_millis(5)).await;
    /// assert!(start.elapsed() >= Duration::from_millis(5));
    /// # }
    /// ```
    pub fn sleep(&self, duration: Duration) -> Sleep {
        let shard = ShardRef::new(self.shard());
        let now = shard.clock().now();
        // Another reading of the clock would cost as much as all the rest. It is needed where the clock may jump.
        let state = if shard.is_pausable() { State::Unregistered } else { State::MadeAt(now) };
        Sleep { shard, deadline: now.after(duration), state: state.pack() }
    }

    /// Waits until `deadline`, as [`sleep`](Self::sleep) does. If it has passed, the sleep is ready at the first poll.
    pub fn sleep_until(&self, deadline: Instant) -> Sleep {
        let shard = ShardRef::new(self.shard());
        let deadline = shard.clock().nanos(deadline);
        Sleep { shard, deadline, state: State::Unregistered.pack() }
    }

    /// A timer without a deadline. Its owner moves it to one before the first poll.
    pub(crate) fn sleep_unset(&self) -> Sleep {
        Sleep { shard: ShardRef::new(self.shard()), deadline: Nanos::MAX, state: State::Unregistered.pack() }
    }

    /// As [`sleep`](Self::sleep), but returns an error at once if the timer cannot run.
    ///
    /// On a wheel with a bound the timer is registered by this call, so it has its permit until it fires. If the sleep
    /// is reset after that, it needs another permit.
    ///
    /// # Errors
    /// If the wheel has ended, or if its [`max_pending`](crate::Builder::max_pending) timers are pending.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use std::time::Duration;
    /// use timingwheel::TimingWheel;
    ///
    /// let wheel = TimingWheel::builder().max_pending(1).build().unwrap();
    /// let first = wheel.try_sleep(Duration::from_secs(1)).unwrap();
    /// let refused = wheel.try_sleep(Duration::from_secs(1)).unwrap_err();
    /// assert!(refused.is_at_capacity());
    ///
    /// drop(first);
    /// assert!(wheel.try_sleep(Duration::from_secs(1)).is_ok());
    /// # }
    /// ```
    pub fn try_sleep(&self, duration: Duration) -> Result<Sleep, Error> {
        self.sleep(duration).try_admit()
    }

    /// As [`sleep_until`](Self::sleep_until), but returns an error at once if the timer cannot run.
    ///
    /// # Errors
    /// As [`try_sleep`](Self::try_sleep).
    pub fn try_sleep_until(&self, deadline: Instant) -> Result<Sleep, Error> {
        self.sleep_until(deadline).try_admit()
    }
}
