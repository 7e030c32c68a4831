//! The clock by which the levels are laid out. It only moves forward: when the next bucket comes up, when nothing more is
//! due, or when an insertion finds that nothing stands in between.

use super::Levels;
use crate::wheel::nanos::Nanos;

/// How many emptied buckets one insertion takes out of the queue to move the clock on. If there are more, the clock stays
/// behind, so that no insertion takes the time of all.
const CLEARED_BY_INSERTION: usize = 32;

impl Levels {
    pub(in crate::wheel) const fn clock(&self) -> Nanos {
        self.clock
    }

    /// Every deadline up to this time has been drained, except those of entries that were moved to the past since.
    pub(in crate::wheel) fn handed_out_through(&self) -> Nanos {
        if self.bucket(self.levels[0].bucket(self.clock_tick)).is_empty() {
            self.clock
        } else {
            self.resolution.beginning(self.clock_tick)
        }
    }

    /// Moves the clock to `now` if no entry stands in between, so that entries inserted after idle time start at level 0.
    #[inline]
    pub(in crate::wheel) fn catch_up(&mut self, now: Nanos) {
        // Not more often than once a tick.
        if self.resolution.end(self.clock) <= now {
            self.clear_up_to(now);
        }
    }

    #[cold]
    fn clear_up_to(&mut self, now: Nanos) {
        for _ in 0..CLEARED_BY_INSERTION {
            match self.front() {
                Some((front, None)) => self.dequeue(front),
                Some((front, Some(_))) if front.beginning() <= now => return,
                _ => return self.set_clock(now),
            }
        }
    }

    /// Moves the clock forward, and never back.
    pub(in crate::wheel) fn set_clock(&mut self, now: Nanos) {
        if now > self.clock {
            self.clock = now;
            let clock = self.resolution.tick_of_clock(now);
            if clock > self.clock_tick {
                self.clock_tick = clock;
                for level in &mut self.levels {
                    if !level.set_clock(clock) {
                        break;
                    }
                }
            }
        }
    }
}
