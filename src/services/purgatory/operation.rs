//! An operation as it stands in memory. [`race`](super::race) tells who ends it, and how.

use std::sync::Arc;

use super::deadline::Deadline;
use super::listed::Places;
use super::lists::Lists;
use super::outcome::Outcome;
use super::stage::{NO_ENTRY, Stage, State};
use crate::platform::catch_panic::contained;
use crate::platform::sync::ShortLock;

/// One block of memory for all that an operation is. The lists, the future and the wheel have references to it.
pub(super) struct Operation<K, F, T> {
    pub(super) lists: Arc<Lists<K>>,
    pub(super) places: Places<K>,
    pub(super) deadline: Deadline,
    pub(super) state: ShortLock<State<F, T>>,
}

impl<K, F, T> Operation<K, F, T> {
    /// The caller has its condition, as in `Tried`.
    #[inline]
    pub(super) fn new(lists: Arc<Lists<K>>, places: Places<K>, deadline: Deadline) -> Self {
        let state = State {
            stage: Stage::tried(None),
            waker: None,
            entry: NO_ENTRY,
            is_awaited: false,
            is_for_task: false,
            is_due: false,
            again: false,
        };
        Self { lists, places, deadline, state: ShortLock::new(state) }
    }

    /// The outcome, if there is one.
    pub(super) fn take_outcome(&self) -> Option<Outcome<T>> {
        match &mut self.state.lock().stage {
            Stage::Ended(outcome) => outcome.take(),
            Stage::Waiting(_) | Stage::Tried { .. } => None,
        }
    }

    /// The task is here, and need not be woken.
    pub(super) fn forget_waker(&self) {
        let waker = self.state.lock().waker.take();
        // If it panics the operation has to end all the same.
        contained(move || drop(waker));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Beside the two counts of its references.
    #[test]
    #[cfg(target_pointer_width = "64")]
    fn an_operation_of_two_short_keys_takes_144_bytes() {
        assert_eq!(size_of::<Operation<u64, [usize; 2], u64>>(), 144);
    }
}
