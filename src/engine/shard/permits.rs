//! Permits of the bound that a job keeps for all of its timers.
//!
//! A timer takes a permit when it is registered, and the permit is free again when the timer fires. A repeating job would
//! then have to find another permit for its next timer. So such a job takes a permit once, registers all its timers with
//! that permit, and gives the permit back when the job is over.

use std::task::Waker;

use super::Shard;
use crate::error::Error;
use crate::wheel::{Hierarchy, Key, Nanos};

impl Shard {
    /// Takes a permit with which timers can be registered, if there is a bound.
    pub(crate) fn take_permit(&self) -> Result<(), Error> {
        let Some(bound) = &self.bound else { return Ok(()) };
        bound.take().map_err(|at_capacity| {
            if self.has_ended() {
                return Error::shutdown();
            }
            self.alarm.refused();
            at_capacity
        })
    }

    /// Gives back a permit with which no timer is registered. On a wheel that has ended all permits are free already.
    pub(crate) fn give_permit_back(&self) {
        if !self.has_ended() {
            self.give_back(1);
        }
    }

    /// From now on, timers whose waker has its data at `address` keep their permit when they fire.
    pub(crate) fn keep_permit_of(&self, address: usize) {
        if let Some(bound) = &self.bound {
            bound.keep(address);
        }
    }

    /// Ends what [`keep_permit_of`](Self::keep_permit_of) began: there is no such waker any more.
    pub(crate) fn forget_permit_of(&self, address: usize) {
        if let Some(bound) = &self.bound {
            bound.forget(address);
        }
    }

    /// Gives back the permits of timers that have fired, except for kept ones.
    pub(super) fn give_back_what_left(&self, fired: &[Waker]) {
        if let Some(bound) = &self.bound {
            bound.give_back(bound.left_by(fired));
        }
    }

    /// As [`register`](Self::register), or as [`register_rounded`](Self::register_rounded) if the deadline `is_rounded`, in
    /// a permit that the caller has taken.
    pub(crate) fn register_with_permit(
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

    /// As [`cancel`](Self::cancel), but the caller keeps the entry's permit.
    pub(crate) fn cancel_keeping_permit(&self, key: Key) -> Option<Waker> {
        self.take_out_keeping_permit(self.state.lock(), key)
    }
}
