//! Running a user's code so that its panic harms nobody else.

use std::any::Any;
use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::thread;

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

/// Runs `attempt`, and returns `None` if it panics, of which nobody is told. For what tells only by a panic that it is
/// not to be had. Where panics abort the process, so does this one, and is reported.
///
/// The process has one panic hook. The first attempt wraps it for good, in one that hands on all that is no attempt's.
/// To do that for each attempt would lose panics and hooks of other threads, which come in between; as it is, one that is
/// set in the very moment of the first attempt may be lost. A hook that is set later is told of attempts that fail.
pub(crate) fn without_a_message<T>(attempt: impl FnOnce() -> T) -> Option<T> {
    static WRAP: Once = Once::new();
    thread_local!(static ATTEMPTS: Cell<bool> = const { Cell::new(false) });

    // In a model nothing is attempted.
    if cfg!(all(test, loom)) {
        return None;
    }
    // The hook cannot be changed while a panic goes on.
    if cfg!(panic = "unwind") && !thread::panicking() {
        WRAP.call_once(|| {
            let before = panic::take_hook();
            panic::set_hook(Box::new(move |info| {
                if !ATTEMPTS.try_with(Cell::get).unwrap_or_default() {
                    before(info);
                }
            }));
        });
    }
    ATTEMPTS.set(true);
    let result = catch_unwind(AssertUnwindSafe(attempt));
    ATTEMPTS.set(false);
    result.map_err(discard).ok()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_that_panics_has_no_result_and_the_next_one_has() {
        assert_eq!(without_a_message(|| panic!("not to be had")), None::<()>);
        assert_eq!(without_a_message(|| 7), Some(7));
    }
}
