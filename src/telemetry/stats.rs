//! The counts of a wheel, and its state.

use std::time::Duration;

use crate::telemetry::histogram::Histogram;

/// What a wheel has done since it was made, and its state now, from
/// [`TimingWheel::stats`](crate::TimingWheel::stats).
///
/// Counting is always on. The page [`monitor`](crate::monitor) tells what it costs, and how to watch a wheel.
///
/// Shards are read one after the other, each under its lock. While other threads arm and cancel, the counts of
/// different shards are from slightly different times. At rest `armed == fired + cancelled + pending`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// How many timers are pending now.
    pub pending: usize,
    /// How many pending timers stand on each level, level 0 first.
    ///
    /// Together they are `pending`, at rest.
    pub pending_by_level: Vec<usize>,
    /// How many timers were armed.
    pub armed: u64,
    /// How many timers fired, because their deadline came.
    pub fired: u64,
    /// How many timers were dropped before their deadline, moved to a deadline that the wheel had passed, or ended with the
    /// wheel.
    pub cancelled: u64,
    /// How many times a timer moved to another bucket because its own came up. Resets do not count.
    pub cascaded: u64,
    /// How many times the wheel was turned, whether a timer was due or not.
    pub turns: u64,
    /// How long after its deadline each timer was fired by a turn of the wheel. This is the wait for the end of the tick,
    /// and the time until the runtime looked at its sockets and timers.
    ///
    /// - Scheduling delay of the task is not included.
    /// - Timers that their owners polled first, during a turn, are not included.
    /// - The deadline of a timer with a [tolerance](crate::Sleep::with_tolerance) is the rounded one, so its tolerance is not included.
    /// - A timer that was first polled, or moved, after its deadline does not count as late for that. The lateness of a
    ///   timer is at most the delay of the turn plus one tick, or plus two ticks on a busy wheel.
    pub lateness: Histogram,
    /// How many timers were refused because `max_pending` were pending.
    pub refused: u64,
    /// How many times a turn was more than 10 milliseconds late, because the runtime did not look at its sockets and
    /// timers. All turns that work off one backlog count once.
    pub stalls: u64,
    /// How many wakers panicked when their timers fired, or when the end of the wheel woke them. The panic hook has
    /// reported each. Other wakers are not counted: those woken by a reset to a deadline that has passed, whose caller gets
    /// the panic. Panics that a library has [noted](crate::TimingWheel::note_panic), such as those of jobs, are counted too.
    pub wakers_panicked: u64,
    /// How far the wheel is behind, beyond the lateness that it [promises](crate::TimingWheel#precision). Zero, unless the
    /// runtime is held up or more timers are due than one turn fires.
    pub overdue: Duration,
    /// Whether the system gives no thread for the watchdog, so that a worker that blocks may hold up timers. The watchdog
    /// begins as soon as there is one. A wheel on a runtime with one worker needs none.
    pub unwatched: bool,
    /// Whether the wheel has ended.
    pub ended: bool,
}

impl Stats {
    /// What happened after `earlier`, which are stats of the same wheel. The present state stays as it is: `pending`,
    /// `pending_by_level`, `overdue`, `unwatched` and `ended`.
    ///
    /// # Panics
    /// Never. If a count of `earlier` is greater, as it may be for another wheel, the difference is 0.
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
            armed: self.armed.saturating_sub(earlier.armed),
            fired: self.fired.saturating_sub(earlier.fired),
            cancelled: self.cancelled.saturating_sub(earlier.cancelled),
            cascaded: self.cascaded.saturating_sub(earlier.cascaded),
            turns: self.turns.saturating_sub(earlier.turns),
            lateness: self.lateness.since(&earlier.lateness),
            refused: self.refused.saturating_sub(earlier.refused),
            stalls: self.stalls.saturating_sub(earlier.stalls),
            wakers_panicked: self.wakers_panicked.saturating_sub(earlier.wakers_panicked),
            overdue: self.overdue,
            unwatched: self.unwatched,
            ended: self.ended,
        }
    }
}
