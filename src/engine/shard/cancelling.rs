//! Taking an entry out before the turner hands it out.

use std::task::Waker;

use super::{Shard, State};
use crate::platform::sync::ShortLockGuard;
use crate::wheel::{Key, Nanos};

impl Shard {
    /// Takes an entry out, if it is still there, and returns its waker.
    #[inline]
    pub(crate) fn cancel(&self, key: Key, deadline: Nanos) -> Option<Waker> {
        if self.published.has_handed_out(deadline) {
            return None;
        }
        self.take_out(self.state.lock(), key)
    }

    /// As [`cancel`](Self::cancel), for a caller that has the lock. Releases it.
    #[inline]
    pub(super) fn take_out(&self, mut state: ShortLockGuard<'_, State>, key: Key) -> Option<Waker> {
        let waker = state.cancel(key)?;
        // A paused clock would jump to the time of a timer that is gone.
        let disarm = state.hierarchy.is_empty() && self.alarm.is_paused();
        if disarm {
            self.published.set_next_expiration(state.hierarchy.next_expiration());
        }
        drop(state);
        if disarm {
            self.alarm.wake_to_turn();
        }
        self.give_back(1);
        Some(waker)
    }
}
