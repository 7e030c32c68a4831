//! [`DeadlineCounters`]: how much of their time requests use, how many come too late, and where they end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use crate::Deadline;
use crate::ended::Ended;
use crate::sync::TimingWheel;
use crate::tree::instant_in;

/// How many depths [`DeadlineStats`] tells apart. The last one counts all that are deeper too.
pub const DEPTHS: usize = 8;

/// Counts what becomes of requests. A clone counts into the same.
///
/// Only deadlines [made by it](Self::deadline_in) are counted. They cost two more readings of the clock: one when they are
/// made, one when the last clone is dropped. All other deadlines cost nothing more.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use std::time::Duration;
/// use timingwheel::TimingWheel;
/// use timingwheel_deadline::DeadlineCounters;
/// use tokio::time::sleep;
///
/// let (wheel, requests) = (TimingWheel::new(), DeadlineCounters::new());
/// for seconds in [1, 5, 20] {
///     let deadline = requests.deadline_in(&wheel, Duration::from_secs(10));
///     let _ = deadline.run(sleep(Duration::from_secs(seconds))).await;
/// }
/// let stats = requests.stats();
/// assert_eq!(stats.used, [0, 1, 0, 0, 0, 1, 0, 0, 0, 0], "a tenth, and half of the time");
/// assert_eq!(stats.passed[0], 1, "of the requests themselves");
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct DeadlineCounters {
    counts: Arc<Counts>,
}

/// What [`DeadlineCounters`] have counted. Each request that has come to its end is counted once in `too_late`, `used`,
/// `passed[0]` or `cancelled[0]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeadlineStats {
    /// Requests that had no time left when their deadline was made.
    pub too_late: u64,
    /// Requests that came to their end in time, by the tenths of their time that they used, rounded down. A request ends
    /// when its last clone, child and future is dropped. If its deadline was moved, the share is of the time until the new
    /// instant.
    pub used: [u64; 10],
    /// Deadlines that passed, by depth: 0 is the request's own, 1 that of its children and of calls with a limit, and so
    /// on. Deadlines that end with an ancestor are not counted. Below the request, a deadline is counted when a future
    /// under it has told that it passed.
    pub passed: [u64; DEPTHS],
    /// Deadlines that were cancelled, by depth, as `passed`.
    pub cancelled: [u64; DEPTHS],
}

impl DeadlineCounters {
    /// Counters at zero.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A request's deadline, as by [`DeadlineExt::deadline_in`](crate::DeadlineExt::deadline_in).
    #[must_use]
    pub fn deadline_in(&self, wheel: &TimingWheel, after: Duration) -> Deadline {
        self.deadline_at(wheel, instant_in(wheel, after))
    }

    /// A request's deadline, as by [`DeadlineExt::deadline_at`](crate::DeadlineExt::deadline_at).
    #[must_use]
    pub fn deadline_at(&self, wheel: &TimingWheel, instant: Instant) -> Deadline {
        Deadline::root(wheel, instant, Some(self))
    }

    /// What was counted so far.
    #[must_use]
    pub fn stats(&self) -> DeadlineStats {
        let Counts { too_late, used, passed, cancelled } = &*self.counts;
        DeadlineStats {
            too_late: too_late.load(Ordering::Relaxed),
            used: used.each_ref().map(|count| count.load(Ordering::Relaxed)),
            passed: passed.each_ref().map(|count| count.load(Ordering::Relaxed)),
            cancelled: cancelled.each_ref().map(|count| count.load(Ordering::Relaxed)),
        }
    }
}

#[derive(Debug, Default)]
struct Counts {
    too_late: AtomicU64,
    used: [AtomicU64; 10],
    passed: [AtomicU64; DEPTHS],
    cancelled: [AtomicU64; DEPTHS],
}

/// Of a request that is counted.
pub(crate) struct Used {
    counters: DeadlineCounters,
    since: Instant,
}

impl Used {
    /// Of a request that begins now. One that has no time left is counted here, and never again.
    pub(crate) fn new(counters: &DeadlineCounters, wheel: &TimingWheel, at: Instant) -> Option<Self> {
        let since = wheel.current_time();
        if at <= since {
            counters.counts.too_late.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        Some(Self { counters: counters.clone(), since })
    }

    /// A deadline ended, at this depth.
    pub(crate) fn ended(&self, end: Ended, depth: usize) {
        let counts = match end {
            Ended::Passed => &self.counters.counts.passed,
            Ended::Cancelled => &self.counters.counts.cancelled,
        };
        counts[depth.min(DEPTHS - 1)].fetch_add(1, Ordering::Relaxed);
    }

    /// Nobody refers any more to a deadline at `at` that nobody saw ending.
    pub(crate) fn unused(&self, at: Instant, now: Instant) {
        if now >= at {
            return self.ended(Ended::Passed, 0);
        }
        // No division by zero: `at` was later than `since` when it was made, and one that was moved before passed.
        let tenths = (now - self.since).as_nanos() * 10 / (at - self.since).as_nanos();
        let tenths = usize::try_from(tenths).expect("below ten, because `now` is before `at`");
        self.counters.counts.used[tenths].fetch_add(1, Ordering::Relaxed);
    }
}
