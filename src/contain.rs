//! Running a user's code so that its panic harms nobody else.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `code` of a user's, and tells whether it came to its end. If it panics, the panic hook has reported it, and
/// that is all.
///
/// Nothing of ours may be half done meanwhile: no lock is held, and nothing borrowed is changed.
pub(crate) fn contained(code: impl FnOnce()) -> bool {
    match catch_unwind(AssertUnwindSafe(code)) {
        Ok(()) => true,
        Err(panic) => {
            discard(panic);
            false
        }
    }
}

/// Drops what a panic carried, which may panic again as it is dropped.
fn discard(panic: Box<dyn Any + Send>) {
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        // Whoever goes on panicking here has had two chances.
        std::mem::forget(again);
    }
}
