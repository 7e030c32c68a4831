//! What a wheel has done so far, and how it is doing.

use std::time::Duration;

use crate::telemetry::histogram::Histogram;

/// What a wheel has done since it was made, and its state now, from [`TimingWheel::stats`](crate::TimingWheel::stats).
///
/// A wheel always counts. [`monitor`](crate::monitor) tells what that costs, and how to watch a wheel by its
/// statistics.
///
/// Each shard is read under its lock, one after the other. So while other threads arm and cancel, the counts of
/// different shards are from slightly different times. At rest `armed == fired + cancelled + pending`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Timers that are registered now.
    pub pending: usize,
    /// How many pending timers stand on each level, level 0 first, as far as levels have been needed. Timers on levels
    /// for tolerances are counted in `pending_tolerant` instead. All together they are `pending`, except if the levels
    /// of a shard have more than 1,024 slots: these are counted 1,024 at a time, and a timer that comes, goes or moves
    /// meanwhile may be counted twice or not at all.
    pub pending_by_level: Vec<usize>,
    /// How many pending timers have a tolerance and stand on the levels for such timers.
    pub pending_tolerant: usize,
    /// Timers that were registered.
    pub armed: u64,
    /// Timers whose deadline came.
    pub fired: u64,
    /// Timers that were dropped before their deadline, that were moved to a deadline that the wheel had passed, or that
    /// were pending when the wheel ended.
    pub cancelled: u64,
    /// How many times a timer was moved to another bucket because its own bucket came up, not because it was reset.
    pub cascaded: u64,
    /// How many times the wheel was turned: to fire timers, or for housekeeping, such as clearing dropped ones.
    pub turns: u64,
    /// How many [jobs](crate::job) panicked.
    pub jobs_panicked: u64,
    /// How long after its deadline each timer was fired by a turn of the wheel. It consists of the wait for the end of
    /// the tick, and of the time until the runtime polled its sockets and timers.
    ///
    /// - Scheduling delay of the task is not included, nor are timers that their owners polled first during a turn.
    /// - The deadline of a timer with a [tolerance](crate::Tolerance) is the one to which it was rounded up, so the
    ///   lateness that the tolerance allows is not included.
    /// - A timer that is first polled, or moved, after its deadline is not late for that reason: no timer counts as
    ///   later than its turn by more than a tick.
    pub lateness: Histogram,
    /// How long a turn held a shard's lock, once for each shard and batch. A thread that arms or cancels in that shard
    /// meanwhile waits for that long. Arming and cancelling hold the lock too, for some tens of nanoseconds; to measure
    /// that would take longer than it lasts.
    pub lock_holds: Histogram,
    /// Timers that were refused because `max_pending` were pending.
    pub refused: u64,
    /// How many turns were more than 10 milliseconds late, because the runtime did not poll its sockets and timers for
    /// that long.
    pub stalls: u64,
    /// Wakers that panicked when their timers fired, or when the end of the wheel woke them. The panic hook has
    /// reported each of them. Other wakers are not counted: those that a reset to a deadline in the past wakes, whose
    /// panic goes to the caller of the reset, and those that a job or an operation wakes when it is over.
    pub wakers_panicked: u64,
    /// How far the wheel is behind, beyond one tick: zero unless the runtime is held up, or more is due than one turn
    /// fires.
    pub overdue: Duration,
    /// Whether the wheel has ended.
    pub ended: bool,
}

impl Stats {
    /// What has happened since `earlier`, which are earlier statistics of the same wheel. The fields that tell the
    /// state now stay as they are: `pending`, `pending_by_level`, `pending_tolerant`, `overdue` and `ended`.
    ///
    /// # Panics
    /// Never. If a count of `earlier` is higher, because it is another wheel's, the difference is 0.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::time::Duration;
    /// use timingwheel::TimingWheel;
    ///
    /// let wheel = TimingWheel::new();
    /// wheel.sleep(Duration::from_secs(1)).await;
    /// let earlier = wheel.stats();
    /// wheel.sleep(Duration::from_secs(2)).await;
    /// let now = wheel.stats();
    /// assert_eq!((now.fired, now.since(&earlier).fired), (2, 1));
    /// # }
    /// ```
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            pending: self.pending,
            pending_by_level: self.pending_by_level.clone(),
            pending_tolerant: self.pending_tolerant,
            armed: self.armed.saturating_sub(earlier.armed),
            fired: self.fired.saturating_sub(earlier.fired),
            cancelled: self.cancelled.saturating_sub(earlier.cancelled),
            cascaded: self.cascaded.saturating_sub(earlier.cascaded),
            turns: self.turns.saturating_sub(earlier.turns),
            lateness: self.lateness.since(&earlier.lateness),
            lock_holds: self.lock_holds.since(&earlier.lock_holds),
            refused: self.refused.saturating_sub(earlier.refused),
            stalls: self.stalls.saturating_sub(earlier.stalls),
            jobs_panicked: self.jobs_panicked.saturating_sub(earlier.jobs_panicked),
            wakers_panicked: self.wakers_panicked.saturating_sub(earlier.wakers_panicked),
            overdue: self.overdue,
            ended: self.ended,
        }
    }
}
