//! What a wheel has done so far.

/// Counts since a wheel was made, from [`TimingWheel::stats`](crate::TimingWheel::stats).
///
/// Each shard is counted under its lock, one after the other: while other threads arm and cancel, the counts of
/// different shards are from slightly different times. At rest `armed == fired + cancelled + pending`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Timers that are registered now.
    pub pending: usize,
    /// Timers that were registered.
    pub armed: u64,
    /// Timers whose deadline came.
    pub fired: u64,
    /// Timers that were dropped before their deadline, moved to one that the wheel had passed, or ended with it.
    pub cancelled: u64,
    /// How many times a timer was moved from one bucket to another.
    pub cascaded: u64,
    /// How many times the driver was woken. Going on after a full batch is not counted.
    pub driver_wakeups: u64,
    /// How many [jobs](crate::job) panicked.
    pub jobs_panicked: u64,
}
