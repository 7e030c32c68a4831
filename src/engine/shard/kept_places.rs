//! The places of a bound that stay with who waits, over any number of timers.
//!
//! A timer takes its place when it is registered, and the place is free again when the timer fires. A job that runs again
//! and again would have to find another then. So it takes a place once, registers its timers in that, and gives it back
//! when it is over.

use std::task::Waker;

use super::Shard;
use crate::error::Error;
use crate::wheel::{Hierarchy, Key, Nanos};

impl Shard {
    /// Takes a place that timers can be registered in, where there is a bound.
    pub(crate) fn take_place(&self) -> Result<(), Error> {
        let Some(bound) = &self.bound else { return Ok(()) };
        bound.take().map_err(|at_capacity| {
            if self.has_ended() {
                return Error::shutdown();
            }
            self.alarm.refused();
            at_capacity
        })
    }

    /// Gives such a place back, without a timer in it. Of a wheel that has ended all places are free.
    pub(crate) fn give_place_back(&self) {
        if !self.has_ended() {
            self.give_back(1);
        }
    }

    /// Timers whose waker has its data at `address` keep their place when they fire.
    pub(crate) fn keep_place_of(&self, address: usize) {
        if let Some(bound) = &self.bound {
            bound.keep(address);
        }
    }

    /// There is no such waker any more.
    pub(crate) fn forget_place_of(&self, address: usize) {
        if let Some(bound) = &self.bound {
            bound.forget(address);
        }
    }

    /// Gives back what timers leave that have fired.
    pub(super) fn give_back_what_left(&self, fired: &[Waker]) {
        if let Some(bound) = &self.bound {
            bound.give_back(bound.left_by(fired));
        }
    }

    /// As [`register`](Self::register), in a place that the caller has.
    pub(crate) fn register_in_place(
        &self,
        now: Nanos,
        deadline: Nanos,
        waker: Waker,
    ) -> Result<Option<Key>, Error> {
        if deadline <= now {
            return Ok(None);
        }
        self.insert_by(Hierarchy::insert_and_tell, now, deadline, waker)
    }

    /// As [`register_rounded`](Self::register_rounded), in a place that the caller has.
    pub(crate) fn register_rounded_in_place(
        &self,
        now: Nanos,
        deadline: Nanos,
        waker: Waker,
    ) -> Result<Option<Key>, Error> {
        if deadline <= now {
            return Ok(None);
        }
        self.insert_by(Hierarchy::insert_rounded_and_tell, now, deadline, waker)
    }

    /// As [`cancel`](Self::cancel), and leaves the place of the entry to the caller.
    pub(crate) fn cancel_in_place(&self, key: Key) -> Option<Waker> {
        self.take_out_in_place(self.state.lock(), key)
    }
}
