//! Waking, whatever the wakers do.

use std::task::Waker;

use crate::contain::contained;

/// Wakes and drops all of `wakers`. One that panics harms no other.
pub(super) fn all(wakers: &mut Vec<Waker>) {
    wakers.drain(..).for_each(|waker| contained(|| waker.wake()));
}
