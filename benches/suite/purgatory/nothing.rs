//! Watches over nothing: what a run costs by itself.

use timingwheel::wheel::Nanos;

use super::replay::{Outcome, Watch};

/// Every request that arrives is at its end, one way or the other.
pub(super) struct Nothing {
    outcome: Outcome,
}

impl Watch for Nothing {
    fn new(_requests: usize, _pending: usize) -> Self {
        Self { outcome: Outcome::default() }
    }

    fn arrive(&mut self, _now: Nanos) {
        self.outcome.timed_out += 1;
    }

    fn complete(&mut self, _request: u32, _now: Nanos) {
        self.outcome.timed_out -= 1;
        self.outcome.completed += 1;
    }

    async fn turn(&mut self, _now: Nanos) {}

    fn overdue_since(&self, now: Nanos) -> Nanos {
        now
    }

    fn outcome(&self) -> Outcome {
        self.outcome
    }
}
