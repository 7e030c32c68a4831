//! How much work a run does.

use std::time::Duration;

/// All of it under `cargo bench`, or next to nothing, only to see that every case works.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    is_test: bool,
}

/// Enough for a median that one disturbance does not move.
const ROUNDS: usize = 15;
/// Of rounds that wait for their timers, which takes seconds.
const FEW_ROUNDS: usize = 3;
/// Each number of operations or timers is divided by this in a test.
const TEST_DIVISOR: u32 = 1000;

impl Scale {
    pub(crate) const fn full() -> Self {
        Self { is_test: false }
    }

    pub(crate) const fn test() -> Self {
        Self { is_test: true }
    }

    pub(crate) const fn is_test(self) -> bool {
        self.is_test
    }

    /// This many, or a small share of them in a test; at least one.
    pub(crate) fn of(self, full: usize) -> usize {
        if self.is_test { (full / TEST_DIVISOR as usize).max(1) } else { full }
    }

    /// This length, or a small share of it in a test.
    pub(crate) fn length(self, full: Duration) -> Duration {
        if self.is_test { full / TEST_DIVISOR } else { full }
    }

    /// How many pairs are measured.
    pub(crate) const fn rounds(self) -> usize {
        if self.is_test { 1 } else { ROUNDS }
    }

    /// How many pairs are measured where each takes seconds.
    pub(crate) const fn few_rounds(self) -> usize {
        if self.is_test { 1 } else { FEW_ROUNDS }
    }
}
