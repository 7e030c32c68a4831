//! Counting the references to what an `Arc` has.
//!
//! The counts are std's. A model checker does not see them, so in a model each counting and uncounting is told to it.

use std::sync::{Arc, Weak};

use super::Ordering;
#[cfg(not(all(test, loom)))]
use super::fence;

/// Uncounts a reference. Release: whoever [counts](references_to) it no more sees what was done before.
#[inline]
pub(crate) fn uncount<T>(reference: Arc<T>) {
    #[cfg(all(test, loom))]
    IN_MODEL.fetch_add(1, Ordering::Release);
    drop(reference);
}

/// How many references there are. Acquire.
pub(crate) fn references_to<T>(of: &Weak<T>) -> usize {
    #[cfg(all(test, loom))]
    IN_MODEL.fetch_add(1, Ordering::Acquire);
    let references = of.strong_count();
    #[cfg(not(all(test, loom)))]
    fence(Ordering::Acquire);
    references
}

#[cfg(all(test, loom, not(shuttle)))]
loom::lazy_static!(static ref IN_MODEL: super::AtomicUsize = super::AtomicUsize::new(0););
#[cfg(all(test, loom, shuttle))]
shuttle::lazy_static!(static ref IN_MODEL: super::AtomicUsize = super::AtomicUsize::new(0););
