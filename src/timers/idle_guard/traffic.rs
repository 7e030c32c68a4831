//! What a byte that passes does: it ends the wait of its direction, and begins the silence of both anew. The timer is left
//! alone.
//!
//! Half of an idle limit after that the other direction is asked once more whether it still waits: it may have been dropped
//! since.

use super::direction::{Direction, Operation};
use super::limits::{Limits, Marks};
use super::waits::Waits;
use crate::wheel::Nanos;

impl Waits {
    /// The operation was ready. This is in the way of every byte, so it leaves the timer alone.
    #[inline]
    pub(super) fn end(&mut self, operation: Operation) {
        let direction = operation.direction();
        if operation == Operation::Flush && !self.limits.marks(direction).has(Marks::OF_FLUSH) {
            return;
        }
        self.since[direction.index()] = Nanos::MAX;
        if let Limits::Apart { .. } = self.limits {
            self.note_traffic(direction);
        }
    }

    #[inline(never)]
    fn note_traffic(&mut self, direction: Direction) {
        let other_waits = self.is_waiting(direction.other());
        let Limits::Apart { rest, .. } = &mut self.limits else { return };
        // Where nobody waits, the next wait begins anew.
        let counts = rest.idle != Nanos::MAX && other_waits;
        if !counts && rest.last_use.is_none() {
            return;
        }
        let now = self.timer.now();
        if let Some(last_use) = &rest.last_use {
            last_use.note(direction, now);
        }
        self.begin_silence(now);
    }

    /// A silence begins at `now`. Whoever waits is asked again when half of it is over: the answer to a former silence no
    /// longer counts.
    pub(super) fn begin_silence(&mut self, now: Nanos) {
        if let Limits::Apart { rest, marks, .. } = &mut self.limits {
            rest.idle_since = now;
            marks.iter_mut().for_each(|marks| marks.set(Marks::PAST_HALF_OF_IDLE, false));
        }
    }
}
