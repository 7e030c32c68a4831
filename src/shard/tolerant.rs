//! Timers that may be late, by deadlines that were rounded.

use std::task::Waker;

use super::Shard;
use crate::error::Error;
use crate::wheel::{Hierarchy, Key, Nanos};

impl Shard {
    /// As [`register`](Self::register), for a deadline that was rounded.
    pub(crate) fn register_rounded(
        &self,
        now: Nanos,
        deadline: Nanos,
        waker: Waker,
    ) -> Result<Option<Key>, Error> {
        self.register_by(Hierarchy::insert_rounded_and_tell, now, deadline, waker)
    }

    /// As [`reschedule`](Self::reschedule), for a deadline that was rounded, and that lies ahead by the clock.
    pub(crate) fn reschedule_rounded(&self, key: Key, from: Nanos, to: Nanos) -> bool {
        let mut state = self.state.lock();
        // The driver may have come to it meanwhile.
        if to <= state.hierarchy.elapsed() {
            drop(state);
            if let Some(waker) = self.cancel(key, from) {
                waker.wake();
            }
            return false;
        }
        let Some(expiration) = state.hierarchy.reschedule_rounded_and_tell(key, to) else { return false };
        self.publish_and_request(state, expiration);
        true
    }
}
