//! Counting the references to the value of an `Arc`.
//!
//! The counts are std's, which a model checker does not see. So in a model, an operation on an atomic that the checker sees
//! comes right before each counting and uncounting. The checker changes threads before an operation, so it tries all
//! orders only if the operation comes first.

use std::sync::{Arc, Weak};

use super::{Ordering, fence};

/// Makes another reference. If a thread [counts](references_to) without it, this thread sees from now on what that thread
/// saw before: each has a sequentially consistent fence.
pub(crate) fn count_one_more<T>(reference: &Arc<T>) -> Arc<T> {
    #[cfg(all(test, loom))]
    IN_MODEL.fetch_add(1, Ordering::Relaxed);
    let another = reference.clone();
    fence(Ordering::SeqCst);
    another
}

/// Drops a reference. Release: a thread that [counts](references_to) without this reference sees what was done before.
#[inline]
pub(crate) fn uncount<T>(reference: Arc<T>) {
    #[cfg(all(test, loom))]
    IN_MODEL.fetch_add(1, Ordering::Release);
    drop(reference);
}

/// How many references there are. Acquire: see [`uncount`]. And a fence before: see [`count_one_more`].
pub(crate) fn references_to<T>(of: &Weak<T>) -> usize {
    fence(Ordering::SeqCst);
    #[cfg(all(test, loom))]
    IN_MODEL.fetch_add(1, Ordering::Acquire);
    let references = of.strong_count();
    fence(Ordering::Acquire);
    references
}

#[cfg(all(test, loom, not(shuttle)))]
loom::lazy_static!(static ref IN_MODEL: super::AtomicUsize = super::AtomicUsize::new(0););
#[cfg(all(test, loom, shuttle))]
shuttle::lazy_static!(static ref IN_MODEL: super::AtomicUsize = super::AtomicUsize::new(0););
