//! What a wheel has done so far, and how it does.

use std::time::Duration;

use crate::telemetry::histogram::Histogram;

/// Counts since a wheel was made and what holds now, from [`TimingWheel::stats`](crate::TimingWheel::stats).
///
/// They are always kept; [`monitor`](crate::monitor) tells what that costs, and how to watch a wheel by them.
///
/// Each shard is counted under its lock, one after the other: while other threads arm and cancel, the counts of
/// different shards are from slightly different times. At rest `armed == fired + cancelled + pending`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Timers that are registered now.
    pub pending: usize,
    /// How many of these stand on each level, level 0 first, as far as levels have been needed; those that may be late
    /// by a tolerance stand apart. Together they are `pending`, but for a shard whose levels have more than 1,024
    /// slots: those are counted so many at a time, and a timer that comes, goes or moves meanwhile may be counted twice
    /// or not at all.
    pub pending_by_level: Vec<usize>,
    /// How many of the pending timers have a tolerance and stand on levels for such.
    pub pending_tolerant: usize,
    /// Timers that were registered.
    pub armed: u64,
    /// Timers whose deadline came.
    pub fired: u64,
    /// Timers that were dropped before their deadline, moved to one that the wheel had passed, or ended with it.
    pub cancelled: u64,
    /// How many times a timer was moved to another bucket because its own came up, not because it was reset.
    pub cascaded: u64,
    /// How many times the wheel was turned: when something was due, or was to be looked at.
    pub turns: u64,
    /// How many [jobs](crate::job) panicked.
    pub jobs_panicked: u64,
    /// How long after its deadline each timer was fired by a turn of the wheel: the wait for the end of the tick, and the
    /// time until the runtime looked at its sockets and timers. The deadline of a timer with a [tolerance](crate::Tolerance) is the
    /// one to which it was rounded up, so what it was allowed to be late is not in it. What a task then takes to be
    /// polled is not either, nor are a few timers: those that their owners found due during a turn.
    ///
    /// A timer that is first polled, or moved, when its deadline has passed is not late for that: none counts for more
    /// than a tick above what the turn itself was late by.
    pub lateness: Histogram,
    /// How long a turn held a shard's lock, once for each shard and batch. Who arms or cancels in that shard
    /// meanwhile waits for so long. Arming and cancelling hold it too, for some tens of nanoseconds; to measure that
    /// would take longer than it lasts.
    pub lock_holds: Histogram,
    /// Timers that were refused because `max_pending` were pending.
    pub refused: u64,
    /// How many turns were more than 10 milliseconds late: the runtime did not look at its sockets and timers for so long.
    pub stalls: u64,
    /// Wakers that panicked as their timers fired, or as the end of the wheel woke them. The panic hook has reported
    /// each. Wakers that are woken otherwise are not counted: by a reset to a deadline that has passed, whose caller
    /// gets the panic, or by a job or an operation that is over.
    pub wakers_panicked: u64,
    /// How far the wheel is behind, beyond one tick: zero unless the runtime is held up, or more is due than one turn
    /// fires.
    pub overdue: Duration,
    /// Whether the wheel has ended.
    pub ended: bool,
}

impl Stats {
    /// What happened after `earlier`, which are the same wheel's as they were then. What holds now, `pending`,
    /// `pending_by_level`, `pending_tolerant`, `overdue` and `ended`, stays as it is.
    ///
    /// # Panics
    /// Never. Where `earlier` counts more, as of another wheel, the difference is 0.
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
