//! Waking, whatever the wakers do.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;

/// Wakes and drops all of `wakers`. One that panics harms no other: the panic hook has reported it.
pub(super) fn all(wakers: &mut Vec<Waker>) {
    for waker in wakers.drain(..) {
        // Unwind safe because nothing of ours is touched while the waker runs.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| waker.wake())) {
            discard(panic);
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
