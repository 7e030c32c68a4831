//! What was refused, in the error that gives it back.

use std::sync::{Mutex, PoisonError};

/// The lock, which nobody waits for, makes of what can be sent what can be shared too, as boxed errors have to be: few
/// futures can.
pub(crate) struct GivenBack<F>(Mutex<F>);

impl<F> GivenBack<F> {
    pub(crate) const fn new(refused: F) -> Self {
        Self(Mutex::new(refused))
    }

    pub(crate) fn into_inner(self) -> F {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}
