//! Entries that may be late.

use std::time::Duration;

use timingwheel::wheel::Nanos;

use super::Model;

impl Model {
    pub(super) fn insert_tolerant(&mut self, deadline: u64, tolerance: u64) {
        self.insert_by(deadline, self.rounded(deadline, tolerance), |wheel, now, id| {
            wheel.insert_tolerant(now, Nanos(deadline), Duration::from_nanos(tolerance), id)
        });
    }

    pub(super) fn change_tolerant(&mut self, id: usize, deadline: u64, tolerance: u64) {
        // One that has passed is due as it is.
        let has_passed = deadline <= self.clock();
        let kept = if has_passed { deadline } else { self.rounded(deadline, tolerance) };
        let tolerance = Duration::from_nanos(tolerance);
        assert!(self.wheel.reschedule_tolerant(self.made[id].key, Nanos(deadline), tolerance));
        self.set(id, kept);
        self.check_counts();
    }

    /// The deadline that it then counts as: not before its own, and later by less than it may be late.
    fn rounded(&self, deadline: u64, tolerance: u64) -> u64 {
        let tolerated = Duration::from_nanos(tolerance);
        let rounded = self.wheel.resolution().round_up_within(Nanos(deadline), tolerated).0;
        assert!(rounded >= deadline && rounded - deadline < tolerance.max(1), "{deadline} became {rounded}");
        rounded
    }
}
