//! Waking the tasks of timers that are due: a waker that panics harms no other timer.

use std::task::Waker;

use crate::platform::catch_panic::contained;
use crate::telemetry::counters::Counters;

/// Wakes and drops all of `wakers`. A waker that panics harms no other, and its panic is counted.
pub(super) fn wake_all(wakers: &mut Vec<Waker>, counters: &Counters) {
    for waker in wakers.drain(..) {
        let has_panicked = !contained(|| waker.wake());
        if has_panicked {
            counters.waker_panicked();
        }
    }
}
