//! What is changed of an entry while it is pending: its waker and its deadline.

use std::task::Waker;
use std::time::Duration;

use super::Shard;
use crate::wheel::{Key, Nanos};

impl Shard {
    /// Gives an entry another waker, and returns the one before. If the entry is gone, gives the waker back.
    pub(crate) fn set_waker(&self, key: Key, waker: Waker) -> Result<Waker, Waker> {
        let mut state = self.state.lock();
        match state.hierarchy.get_mut(key) {
            Some(current) => Ok(std::mem::replace(current, waker)),
            None => Err(waker),
        }
    }

    /// Moves an entry to a later deadline, or to the one that it has. Tells whether it is pending: not if it had been
    /// handed out.
    #[inline(always)]
    pub(crate) fn postpone(&self, key: Key, to: Nanos) -> bool {
        self.state.lock().hierarchy.postpone(key, to)
    }

    /// Moves an entry to an earlier deadline. Gives back whoever is to be woken where it is not pending after that: nobody
    /// if it had been handed out, its waker if the wheel has passed the new deadline.
    #[inline(always)]
    pub(crate) fn bring_forward(&self, key: Key, from: Nanos, to: Nanos) -> Result<(), Option<Waker>> {
        // Where the clock may jump, whoever polls next expects to find what has passed. Otherwise the driver will.
        if self.is_pausable() && to <= self.clock.now() {
            return Err(self.cancel(key, from));
        }
        let mut state = self.state.lock();
        let expiration = state.hierarchy.bring_forward(key, to).ok_or(None)?;
        // What the wheel has passed counts as handed out. An entry that stays where it is lies ahead.
        if expiration < Nanos::MAX && to <= state.hierarchy.elapsed() {
            return Err(self.take_out(state, key));
        }
        self.publish_and_request(state, expiration);
        Ok(())
    }

    /// Moves an entry to `to`, or if that has passed to `soon` from now, unless it is due before that. Tells to which.
    /// Wakes nobody, so that it can be called under a lock that the waker takes. `None` if the entry has been handed out,
    /// or is about to be as the wheel has ended.
    pub(crate) fn put_off(
        &self,
        key: Key,
        from: Nanos,
        to: Nanos,
        now: Nanos,
        soon: Duration,
    ) -> Option<Nanos> {
        let mut state = self.state.lock();
        if state.ended {
            return None;
        }
        let now = now.max(state.hierarchy.elapsed());
        let to = if to <= now { now.after(soon).min(from) } else { to };
        if to >= from {
            return state.hierarchy.postpone(key, to).then_some(to);
        }
        let expiration = state.hierarchy.bring_forward(key, to)?;
        self.publish_and_request(state, expiration);
        Some(to)
    }

    /// How far the wheel has come.
    pub(crate) fn elapsed(&self) -> Nanos {
        self.state.lock().hierarchy.elapsed()
    }
}
