//! Where the output goes of an operation that completed for a future that is gone.

use std::sync::{Mutex, PoisonError};

use super::stage::Outcome;
use crate::platform::contain::contained;

/// Code of a user's, which takes such an output.
///
/// The lock, which nobody waits for, makes of what can be sent what can be shared too, so that a future can.
pub(super) struct GiveBack<T>(Mutex<Box<dyn FnOnce(T) + Send>>);

impl<T> GiveBack<T> {
    pub(super) fn new(code: impl FnOnce(T) + Send + 'static) -> Self {
        Self(Mutex::new(Box::new(code)))
    }

    /// Gives an output back. Whoever does so holds no lock, and is not to panic.
    pub(super) fn give(self, outcome: Outcome<T>) {
        contained(move || match outcome {
            Outcome::Completed(output) => self.0.into_inner().unwrap_or_else(PoisonError::into_inner)(output),
            Outcome::Unmet(_) | Outcome::Panicked(_) => {}
        });
    }
}
