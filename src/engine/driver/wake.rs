//! Waking, whatever the wakers do.

use std::task::Waker;

use crate::platform::contain::contained;
use crate::telemetry::notes::Notes;

/// Wakes and drops all of `wakers`. One that panics harms no other, and is noted.
pub(super) fn all(wakers: &mut Vec<Waker>, notes: &Notes) {
    for waker in wakers.drain(..) {
        if !contained(|| waker.wake()) {
            notes.waker_panicked();
        }
    }
}
