//! Running user code so that its panic harms nobody else.

use std::any::Any;
use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::thread;

/// Runs user code, and returns whether it came to its end. If it panics, the panic hook reports that, and the panic ends
/// here.
///
/// The caller holds no lock meanwhile, and has nothing half done.
pub(crate) fn contained(code: impl FnOnce()) -> bool {
    match catch_unwind(AssertUnwindSafe(code)) {
        Ok(()) => true,
        Err(panic) => {
            discard(panic);
            false
        }
    }
}

/// Drops the payload of a panic, which may panic again.
fn discard(panic: Box<dyn Any + Send>) {
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        // Dropping this one might panic once more.
        std::mem::forget(again);
    }
}

/// Runs `attempt`, and returns `None` if it panics. The panic is not reported. This is for resources that say only by a panic
/// that they are missing. Where panics abort the process, this panic does too, and is reported.
///
/// The process has one panic hook. The first attempt wraps it for good, in a hook that stays silent about attempts and
/// hands on all other panics. Wrapping it for each attempt would lose panics and hooks of other threads in between. A hook
/// that another thread sets in the moment of the first attempt may be lost. A hook that is set later sees failed attempts.
pub(crate) fn without_a_message<T>(attempt: impl FnOnce() -> T) -> Option<T> {
    static WRAP: Once = Once::new();
    thread_local!(static ATTEMPTS: Cell<bool> = const { Cell::new(false) });

    // A model attempts nothing.
    if cfg!(all(test, loom)) {
        return None;
    }
    // The hook cannot be changed during a panic.
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
