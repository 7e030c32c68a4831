//! A refused future, inside the error that gives it back.

use std::sync::{Mutex, PoisonError};

/// A refused future in a lock that nobody waits for. Boxed errors have to be `Sync`, which few futures are. A lock makes any
/// future `Sync` that is `Send`.
pub(crate) struct GivenBack<F>(Mutex<F>);

impl<F> GivenBack<F> {
    pub(crate) const fn new(refused: F) -> Self {
        Self(Mutex::new(refused))
    }

    pub(crate) fn into_inner(self) -> F {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}
