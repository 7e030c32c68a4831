//! Which condition a thread is at, so that one that checks its own key is told apart.

use std::cell::Cell;

/// What this thread tries, by the operation's address: of conditions that check others, the innermost.
pub(super) struct Trying {
    before: usize,
}

thread_local!(static TRYING: Cell<usize> = const { Cell::new(0) });

impl Trying {
    #[inline]
    pub(super) fn begin(operation: usize) -> Self {
        // A thread that is about to end has no such place any more. Then a condition that checks its own key is tried
        // again for that.
        Self { before: TRYING.try_with(|trying| trying.replace(operation)).unwrap_or_default() }
    }

    #[inline]
    pub(super) fn is(operation: usize) -> bool {
        // In a model all threads are one.
        !cfg!(all(test, loom)) && TRYING.try_with(|trying| trying.get() == operation).unwrap_or_default()
    }
}

impl Drop for Trying {
    #[inline]
    fn drop(&mut self) {
        let _ = TRYING.try_with(|trying| trying.set(self.before));
    }
}
