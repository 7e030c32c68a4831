//! Running users' code, so that its panics harm nobody else.

use std::any::Any;
use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::thread;

/// Runs users' code, and returns whether it came to its end without a panic. A panic ends here; the panic hook has
/// reported it.
///
/// Call it when nothing of ours is half done: under no lock, and with no borrowed data half changed.
pub(crate) fn contained(code: impl FnOnce()) -> bool {
    match catch_unwind(AssertUnwindSafe(code)) {
        Ok(()) => true,
        Err(panic) => {
            discard(panic);
            false
        }
    }
}

/// Drops the payload of a panic, which may panic again as it is dropped.
fn discard(panic: Box<dyn Any + Send>) {
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        // Its own payload might panic again, and so on. So it is never dropped.
        std::mem::forget(again);
    }
}

/// Runs `attempt`, and returns `None` if it panics. The panic is not reported. This is for a function that says only by
/// a panic that something is missing. Where panics abort the process, this one does too, and is reported.
///
/// The process has one panic hook. The first attempt wraps it for good, in a hook that passes on every panic but those
/// of attempts. To wrap and unwrap it for each attempt would lose panics of other threads, and hooks that they set in
/// between. Even so, a hook that is set in the very moment of the first attempt may be lost. A hook that is set later
/// also sees attempts that fail.
pub(crate) fn without_a_message<T>(attempt: impl FnOnce() -> T) -> Option<T> {
    static WRAP: Once = Once::new();
    thread_local!(static ATTEMPTS: Cell<bool> = const { Cell::new(false) });

    // Models attempt nothing.
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
