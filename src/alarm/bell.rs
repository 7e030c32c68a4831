//! What the alarm and its thread tell each other, under a lock.

use std::time::Instant;

/// What the thread waits for.
#[derive(Debug, Default)]
pub(super) struct Bell {
    /// When it is to ring.
    pub(super) at: Option<Instant>,
    /// When it will probably be told to ring after that. So it need not be notified of that time: it wakes then anyway.
    pub(super) then: Option<Instant>,
    pub(super) thread: ThreadState,
    /// When it was to ring the last time that it did, until the driver has asked.
    pub(super) rang_for: Option<Instant>,
    pub(super) ended: bool,
}

/// What the thread does. To notify it takes a system call, so that is done once until it has looked.
#[derive(Debug, Default)]
pub(super) enum ThreadState {
    /// Looks at the bell before it waits.
    #[default]
    Awake,
    /// Waits to be notified.
    Waits,
    /// Waits to be notified, but no longer than that.
    WaitsUntil(Instant),
}

impl ThreadState {
    /// Whether it has to be notified so that it looks by `at`.
    pub(super) fn oversleeps(&self, at: Instant) -> bool {
        match *self {
            Self::Awake => false,
            Self::Waits => true,
            Self::WaitsUntil(until) => at < until,
        }
    }
}
