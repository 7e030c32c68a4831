//! Wakers: compares them, and runs their code so that a panic harms no other timer.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::{RawWakerVTable, Waker};

/// A waker's two addresses: of its functions and of its data. Two wakers that are alive at the same time and have the same
/// addresses wake the same task.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WakerId {
    vtable: &'static RawWakerVTable,
    data: usize,
}

impl WakerId {
    #[inline]
    pub(crate) fn of(waker: &Waker) -> Self {
        Self { vtable: waker.vtable(), data: waker.data().addr() }
    }

    #[inline]
    pub(crate) fn is_of(self, waker: &Waker) -> bool {
        self.data == waker.data().addr() && std::ptr::eq(self.vtable, waker.vtable())
    }

    /// Both addresses in one number. Wakers with the same number are mostly the same.
    #[inline]
    pub(crate) fn hash(self) -> usize {
        self.data ^ std::ptr::from_ref(self.vtable).addr()
    }
}

/// Runs a user's code, and returns whether it came to its end without a panic. A panic ends here; the panic hook has
/// reported it.
///
/// Call it when nothing of ours is half done: under no lock, and with no borrowed data half changed.
pub(crate) fn contained(code: impl FnOnce()) -> bool {
    match catch_unwind(AssertUnwindSafe(code)) {
        Ok(()) => true,
        Err(panic) => {
            // Its payload may panic again as it is dropped, and the payload of that panic too, and so on. So that one is
            // never dropped.
            if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
                std::mem::forget(again);
            }
            false
        }
    }
}

/// Drops the waker of another task. A panic of its ends here. Call it under no lock.
pub(crate) fn drop_stranger(waker: Option<Waker>) {
    if let Some(waker) = waker {
        contained(|| drop(waker));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::panic;

    use super::*;

    #[test]
    fn a_panic_that_panics_again_as_it_is_dropped_is_contained() {
        struct Again;
        impl Drop for Again {
            fn drop(&mut self) {
                panic!("as the payload is dropped");
            }
        }
        assert!(contained(|| ()));
        assert!(!contained(|| panic::panic_any(Again)));
    }
}
