//! Waking tasks, whatever their wakers do.

use std::task::Waker;

use crate::platform::contain::contained;
use crate::telemetry::notes::Notes;

/// Wakes and drops all of `wakers`. A waker that panics harms no other, and its panic is noted.
pub(super) fn all(wakers: &mut Vec<Waker>, notes: &Notes) {
    for waker in wakers.drain(..) {
        let has_panicked = !contained(|| waker.wake());
        if has_panicked {
            notes.waker_panicked();
        }
    }
}
