//! The wall clock beside the monotonic clock.

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use crate::id::timestamp;
use crate::shared::Shared;

/// The clocks may differ by so much before all armed timers are armed anew.
const TOLERATED: SignedDuration = SignedDuration::from_millis(100);

pub(super) struct Clocks {
    shared: Arc<Shared>,
    /// Both clocks, at one moment.
    reference: (Timestamp, Instant),
    /// When they were compared last.
    pub(super) compared: Instant,
    /// Whether this task wakes when the clock is set: the clock tells, or it is the store's, and a renewal reads it.
    pub(super) tells: bool,
}

impl Clocks {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let reference = (shared.now(), Instant::now());
        Self { shared, reference, compared: reference.1, tells: false }
    }

    pub(super) fn wall(&self) -> Timestamp {
        self.shared.now()
    }

    /// Asks the clock to wake this task when it is set. Returns whether it was set since they were compared last.
    pub(super) fn watch(&mut self, waker: &Waker) -> bool {
        self.tells = self.shared.goes_by_store() || self.shared.clock.wake_when_set(waker);
        self.tells && self.differs(self.wall(), Instant::now())
    }

    fn differs(&self, wall: Timestamp, now: Instant) -> bool {
        let (shown, since) = self.reference;
        let passed = SignedDuration::try_from(now - since).unwrap_or(SignedDuration::MAX);
        (wall.duration_since(shown) - passed).abs() > TOLERATED
    }

    /// Whether the wall clock was set since this was asked last.
    pub(super) fn was_set(&mut self) -> bool {
        let (wall, now) = (self.wall(), Instant::now());
        self.compared = now;
        let was_set = self.differs(wall, now);
        if was_set {
            self.reference = (wall, now);
        }
        was_set
    }

    /// When the wall clock will show this, if nobody sets it; it has shown `wall` just now. `None` if it shows it already.
    pub(super) fn instant_after(&self, wall: Timestamp, due_ms: i64) -> Option<Instant> {
        let left = timestamp(due_ms).duration_since(wall);
        if !left.is_positive() {
            return None;
        }
        // The second clock is read after the first. So the time in between makes no timer early.
        let now = Instant::now();
        let left = Duration::try_from(left).unwrap_or(Duration::MAX);
        Some(now.checked_add(left).unwrap_or_else(|| now + Duration::from_secs(1 << 30)))
    }
}
