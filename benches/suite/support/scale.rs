//! How much work a run does.

/// All of it under `cargo bench`, or next to nothing, only to see that every case works.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    is_test: bool,
}

/// Enough for a median that one disturbance does not move.
const ROUNDS: usize = 15;
/// Each number of operations or timers is divided by this in a test.
const TEST_DIVISOR: usize = 1000;

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
        if self.is_test { (full / TEST_DIVISOR).max(1) } else { full }
    }

    /// How many pairs are measured.
    pub(crate) const fn rounds(self) -> usize {
        if self.is_test { 1 } else { ROUNDS }
    }
}
