//! Until when the owner's timers are nobody else's.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;

/// Until when timers are begun and handlers called: a while before others may have them. Calls that are on their way have it
/// too, and go by what it is when they are made.
#[derive(Clone, Default)]
pub(super) struct Lease(Arc<Mutex<Option<Instant>>>);

impl Lease {
    pub(super) fn until(&self) -> Option<Instant> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set(&self, until: Option<Instant>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = until;
    }

    pub(super) fn is_good(&self) -> bool {
        self.until().is_some_and(|until| Instant::now() < until)
    }
}
