//! Where the output of an operation goes when its future is gone.

use std::sync::{Mutex, PoisonError};

use super::outcome::Outcome;
use crate::platform::catch_panic::contained;

/// A user's code, which takes such an output.
///
/// Nobody ever waits for the lock. It makes code that is only `Send` also `Sync`, so that futures can be shared.
pub(super) struct GiveBack<T>(Mutex<Option<Code<T>>>);

type Code<T> = Box<dyn FnOnce(T) + Send>;

impl<T> GiveBack<T> {
    pub(super) fn new(code: impl FnOnce(T) + Send + 'static) -> Self {
        Self(Mutex::new(Some(Box::new(code))))
    }

    /// Drops the output, where nobody wants it.
    pub(super) const fn dropped() -> Self {
        Self(Mutex::new(None))
    }

    /// Gives an output back. The caller holds no lock. A panic of the user's code ends here.
    pub(super) fn give(self, outcome: Outcome<T>) {
        contained(move || match outcome {
            Outcome::Completed(output) => match self.0.into_inner().unwrap_or_else(PoisonError::into_inner) {
                Some(code) => code(output),
                None => drop(output),
            },
            Outcome::Unmet(_) | Outcome::Panicked(_) => {}
        });
    }
}
