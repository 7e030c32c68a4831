//! The checks after each operation.

use super::{Made, Model};

/// Entries in a page of memory.
const PAGE: usize = 1024;

/// Buckets and pairs of entries that are looked at for each operation, on average. To look at all of them each time
/// would leave time for few cases where there are many.
const LOOKED_AT: usize = 2_048;

impl Model {
    /// Checks what is quick to check, and from time to time the rest, more seldom the longer it takes.
    pub(super) fn check(&mut self) {
        self.check_counts();
        self.unchecked += 1;
        let slots = usize::try_from(self.shape.slots).expect("few");
        if self.unchecked * LOOKED_AT >= self.wheel.levels() * slots + self.pending.len().pow(2) {
            self.check_everything();
        }
    }

    pub(super) fn check_counts(&self) {
        assert_eq!(self.wheel.len(), self.pending.len());
        assert_eq!(self.wheel.is_empty(), self.pending.is_empty());
        assert!(self.wheel.levels() <= self.levels_needed);
        assert!(self.wheel.cascaded() <= self.deadlines_set * self.levels_needed as u64);
        let through = self.wheel.handed_out_through().0;
        let clock_tick = self.clock() / self.shape.tick * self.shape.tick;
        // At the beginning of a tick, entries that are due just then may be left.
        assert!((clock_tick.saturating_sub(1)..=self.clock()).contains(&through));
        assert!(through >= clock_tick || through + 1 == self.clock());
    }

    pub(super) fn check_everything(&mut self) {
        self.unchecked = 0;
        self.wheel.assert_invariants();
        let capacity = self.wheel.capacity();
        let pages = (self.pending.len() + 1).min(self.most_pending.div_ceil(PAGE));
        assert!((self.pending.len()..=PAGE * pages).contains(&capacity), "{capacity} in {pages} pages");
        let through = self.wheel.handed_out_through().0;
        for &(due, id) in &self.pending {
            let Made { key, deadline, .. } = self.made[id];
            assert!(self.wheel.contains(key), "{id} is not there");
            assert_eq!(self.wheel.get_mut(key).copied(), Some(id));
            let was_over = deadline <= due * self.shape.tick;
            assert!(
                deadline > through || was_over,
                "{id} at {deadline} is pending, not so through {through}"
            );
        }
    }

    /// The end of a tick.
    pub(super) fn end(&self, tick: u64) -> u64 {
        (tick * self.shape.tick).saturating_add(self.shape.tick)
    }
}
