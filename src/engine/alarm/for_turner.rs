//! What a turner does with the alarm, at the beginning and at the end of its turn.

use super::{AWAKE, Alarm};
use crate::platform::sync::{Ordering, fence, lock};
use crate::wheel::Nanos;

impl Alarm {
    /// For a turner, before it turns the shards: tells inserters that a turn begins. Returns since when the turn is
    /// due; `None` if the alarm was not set, or if another turner has begun it.
    pub(crate) fn begin_turn(&self) -> Option<Nanos> {
        self.replace_next_turn(AWAKE);
        // Relaxed: a time that another turner is just replacing only makes the recorded lateness less exact.
        let due = Nanos(self.due.swap(u64::MAX, Ordering::Relaxed));
        (due < Nanos::MAX).then_some(due)
    }

    /// For a turner at the end of its turn: has the next turn made at `at`, but not before `not_before`, not even for an
    /// inserter. After this the turner has to check the shards once more. Returns whether the time has come already, so that
    /// no timer will call.
    pub(crate) fn set_next_turn(&self, at: Nanos, not_before: Nanos) -> bool {
        self.not_before.store(not_before.0, Ordering::Relaxed);
        self.set_by(|now| {
            let at = at.max(not_before);
            (at, at.max(now))
        })
    }

    /// Sets the alarm to when `at_and_due` tells of now, and since when the turn is due then.
    fn set_by(&self, at_and_due: impl FnOnce(Nanos) -> (Nanos, Nanos)) -> bool {
        let mut timers = lock(&self.timers);
        // After the lock, for which this may have waited.
        let now = self.clock.now();
        let (at, due) = at_and_due(now);
        timers.brought_forward = false;
        let is_due = self.set(&mut timers, now, at, due);
        drop(timers);
        // The turner published `next_turn` before this fence, and checks the shards after it.
        fence(Ordering::SeqCst);
        self.watch.expect(at);
        is_due
    }

    /// For a turner that has used up its budget: has the rest, which is due since `due_since`, handed out after other
    /// tasks have run.
    pub(crate) fn set_for_rest(&self, due_since: Nanos) {
        // Where the clock can be paused, the driver's task does it: the task runs before the runtime parks.
        if !self.pausable && lock(&self.timers).has_timer_fd() {
            self.set_by(|now| (now, due_since));
        } else {
            self.due.store(due_since.0, Ordering::Relaxed);
            // `next_turn` is still `AWAKE` since the turn began, so the task turns.
            self.driver.wake();
        }
    }
}
