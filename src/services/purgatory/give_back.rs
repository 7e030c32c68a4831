//! Where the output of an operation goes when its future is gone.

use std::sync::{Mutex, PoisonError};

use super::outcome::Outcome;
use crate::platform::catch_panic::contained;

/// Who takes such an output.
pub(super) struct GiveBack<T>(Box<dyn Take<T>>);

trait Take<T>: Send + Sync {
    fn take(self: Box<Self>, output: T);
}

/// A user's code. Nobody ever waits for the lock. It makes code that is only `Send` also `Sync`, so that futures can be
/// shared.
impl<T, F: FnOnce(T) + Send> Take<T> for Mutex<F> {
    fn take(self: Box<Self>, output: T) {
        (self.into_inner().unwrap_or_else(PoisonError::into_inner))(output);
    }
}

/// Where nobody wants it. This takes no memory.
struct Dropped;

impl<T> Take<T> for Dropped {
    fn take(self: Box<Self>, output: T) {
        drop(output);
    }
}

impl<T> GiveBack<T> {
    pub(super) fn new(code: impl FnOnce(T) + Send + 'static) -> Self {
        Self(Box::new(Mutex::new(code)))
    }

    /// Drops the output.
    pub(super) fn dropped() -> Self {
        Self(Box::new(Dropped))
    }

    /// Gives an output back. The caller holds no lock. A panic of the user's code ends here.
    pub(super) fn give(self, outcome: Outcome<T>) {
        contained(move || match outcome {
            Outcome::Completed(output) => self.0.take(output),
            Outcome::Unmet(_) | Outcome::Panicked(_) => {}
        });
    }
}
