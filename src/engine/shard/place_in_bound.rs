//! Places of the bound that a job keeps for all of its timers.
//!
//! A timer takes a place when it is registered, and the place is free again when the timer fires. A repeating job would
//! then have to find another place for its next timer. So such a job takes a place once, registers all its timers in
//! that place, and gives the place back when the job is over.

use std::task::Waker;

use super::Shard;
use crate::error::Error;
use crate::wheel::{Hierarchy, Key, Nanos};

impl Shard {
    /// Takes a place in which timers can be registered, if there is a bound.
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

    /// Gives back a place in which no timer is registered. On a wheel that has ended all places are free already.
    pub(crate) fn give_place_back(&self) {
        if !self.has_ended() {
            self.give_back(1);
        }
    }

    /// From now on, timers whose waker has its data at `address` keep their place when they fire.
    pub(crate) fn keep_place_of(&self, address: usize) {
        if let Some(bound) = &self.bound {
            bound.keep(address);
        }
    }

    /// Ends what [`keep_place_of`](Self::keep_place_of) began: there is no such waker any more.
    pub(crate) fn forget_place_of(&self, address: usize) {
        if let Some(bound) = &self.bound {
            bound.forget(address);
        }
    }

    /// Gives back the places of timers that have fired, except for kept ones.
    pub(super) fn give_back_what_left(&self, fired: &[Waker]) {
        if let Some(bound) = &self.bound {
            bound.give_back(bound.left_by(fired));
        }
    }

    /// As [`register`](Self::register), or as [`register_rounded`](Self::register_rounded) if the deadline `is_rounded`, in
    /// a place that the caller has taken.
    pub(crate) fn register_in_place(
        &self,
        now: Nanos,
        deadline: Nanos,
        is_rounded: bool,
        waker: Waker,
    ) -> Result<Option<Key>, Error> {
        if deadline <= now {
            return Ok(None);
        }
        let insert: fn(&mut _, _, _, _) -> _ =
            if is_rounded { Hierarchy::insert_rounded_and_tell } else { Hierarchy::insert_and_tell };
        self.insert_by(insert, now, deadline, waker)
    }

    /// As [`cancel`](Self::cancel), but the caller keeps the entry's place.
    pub(crate) fn cancel_in_place(&self, key: Key) -> Option<Waker> {
        self.take_out_in_place(self.state.lock(), key)
    }
}
