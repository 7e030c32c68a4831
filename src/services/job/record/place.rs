//! The place that a job has on a wheel with a bound.
//!
//! The entry of a job that runs once has a place, as each timer has: it is free again when the job is due. A repeating
//! job has one itself, from its first wait to its end, so that a wheel that is full for a moment does not end it.

use std::ptr;
use std::sync::Arc;
use std::task::Waker;

use super::{Owner, Record};
use crate::error::Error;
use crate::services::job::kept_place::KeptPlace;
use crate::services::job::stage::Stage;
use crate::services::job::when::When;
use crate::services::job::work::Work;
use crate::wheel::{Key, Nanos};

impl<W: Work, O: Owner> Record<W, O> {
    /// Whether a place stays with the job.
    pub(super) fn keeps_place(&self) -> bool {
        W::REPEATS && self.shard.is_bounded()
    }

    /// What the waker of its entries has for data.
    fn address(&self) -> usize {
        ptr::from_ref(self).addr()
    }

    /// Takes a place that stays with the job, if it is to have one and has none. Tells whether it has one then.
    pub(super) fn see_to_place(&self, has_place: bool) -> Result<bool, Error> {
        if !has_place && self.keeps_place() {
            self.shard.take_place()?;
            return Ok(true);
        }
        Ok(has_place)
    }

    /// Adds another entry of a job that was registered before.
    pub(super) fn register_again(
        self: &Arc<Self>,
        place: &mut W::KeptPlace,
        when: When,
    ) -> Result<(Nanos, Key), Error> {
        let in_place = self.see_to_place(place.is_taken())?;
        place.set_taken(in_place);
        self.register(in_place, when)
    }

    /// Lets the entries of the job leave their place to it when they fire.
    pub(super) fn keep_place(&self) {
        if self.keeps_place() {
            self.shard.keep_place_of(self.address());
        }
    }

    /// Begins a new job that is due, and needs no entry for its first run.
    pub(super) fn begin_without_entry(&self, has_place: bool) -> Result<(), Error> {
        if self.shard.has_ended() {
            return Err(Error::shutdown());
        }
        if self.keeps_place() {
            self.see_to_place(has_place)?;
            self.lock().place.set_taken(true);
        } else if has_place {
            self.shard.give_place_back();
        }
        Ok(())
    }

    /// For a caller who replaces this job, and cancels it right after: hands its place over, if it has one. What woke
    /// this job when it was due is to be woken if nothing comes of that, and to be dropped outside locks.
    pub(in crate::services::job) fn hand_over_place(&self) -> Option<Option<Waker>> {
        if !self.shard.is_bounded() {
            return None;
        }
        let mut inner = self.lock();
        let waker = match inner.stage {
            Stage::Pending { key, .. } => self.shard.cancel_in_place(key),
            _ => None,
        };
        let had_place = inner.place.hand_over();
        (had_place || waker.is_some()).then_some(waker)
    }
}

impl<W: Work, O: Owner> Drop for Record<W, O> {
    fn drop(&mut self) {
        if self.keeps_place() {
            self.shard.forget_place_of(self.address());
        }
    }
}
