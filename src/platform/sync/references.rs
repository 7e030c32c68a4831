//! Counting the references to the value of an `Arc`.
//!
//! The counts are std's, which a model checker does not see. So in a model, each counting and uncounting is also an
//! operation on an atomic that the checker sees.

use std::sync::{Arc, Weak};

use super::Ordering;
#[cfg(not(all(test, loom)))]
use super::fence;

/// Drops a reference. Release: a thread that [counts](references_to) without this reference sees what was done before.
#[inline]
pub(crate) fn uncount<T>(reference: Arc<T>) {
    #[cfg(all(test, loom))]
    IN_MODEL.fetch_add(1, Ordering::Release);
    drop(reference);
}

/// How many references there are. Acquire: see [`uncount`].
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
