//! The permit that a job has on a wheel with a bound.
//!
//! The entry of a job that runs once has a permit, as each timer has: it is free again when the job is due. A repeating
//! job has one itself, from its first wait to its end, so that a wheel that is full for a moment does not end it.

use std::ptr;
use std::sync::Arc;
use std::task::Waker;

use super::{Owner, Record};
use crate::error::Error;
use crate::services::job::error::JobError;
use crate::services::job::permit_state::KeptPermit;
use crate::services::job::stage::Stage;
use crate::services::job::when::When;
use crate::services::job::work::Work;
use crate::wheel::{Key, Nanos};

impl<W: Work, O: Owner> Record<W, O> {
    /// Whether a permit stays with the job.
    pub(super) fn keeps_permit(&self) -> bool {
        W::REPEATS && self.shard.is_bounded()
    }

    /// What the waker of its entries has for data.
    fn address(&self) -> usize {
        ptr::from_ref(self).addr()
    }

    /// Takes a permit that stays with the job, if it is to have one and has none. Tells whether it has one then.
    pub(super) fn see_to_permit(&self, has_permit: bool) -> Result<bool, Error> {
        if !has_permit && self.keeps_permit() {
            self.shard.take_permit()?;
            return Ok(true);
        }
        Ok(has_permit)
    }

    /// Adds another entry of a job that was registered before.
    pub(super) fn register_again(
        self: &Arc<Self>,
        permit: &mut W::KeptPermit,
        when: When,
    ) -> Result<(Nanos, Key), Error> {
        let has_permit = self.see_to_permit(permit.is_taken())?;
        permit.set_taken(has_permit);
        self.register(has_permit, when)
    }

    /// Lets the entries of the job leave their permit to it when they fire.
    pub(super) fn keep_permit(&self) {
        if self.keeps_permit() {
            self.shard.keep_permit_of(self.address());
        }
    }

    /// Begins a new job that is due, and needs no entry for its first run.
    pub(super) fn begin_without_entry(&self, has_permit: bool) -> Result<(), Error> {
        if self.shard.has_ended() {
            return Err(Error::shutdown());
        }
        if self.keeps_permit() {
            self.see_to_permit(has_permit)?;
            self.lock().permit.set_taken(true);
        } else if has_permit {
            self.shard.give_permit_back();
        }
        Ok(())
    }

    /// For a caller who replaces this job, and cancels it right after: hands its permit over, if it has one. What is returned
    /// with it is to be dropped outside locks. If nothing comes of that, call
    /// [`end_without_successor`](Self::end_without_successor).
    pub(in crate::services::job) fn hand_over_permit(&self) -> Option<Option<Waker>> {
        if !self.shard.is_bounded() {
            return None;
        }
        let mut inner = self.lock();
        let waker = match inner.stage {
            Stage::Pending { key, .. } => self.shard.cancel_keeping_permit(key),
            _ => None,
        };
        let had_permit = inner.permit.hand_over();
        (had_permit || waker.is_some()).then_some(waker)
    }

    /// After the end of the wheel has refused the job that was to have the permit: takes the permit back. This job ends as
    /// its wheel does if it is pending, because its entry is gone, and nobody else would tell it of the end.
    pub(in crate::services::job) fn end_without_successor(&self) {
        let mut inner = self.lock();
        if inner.permit.is_handed_over() {
            inner.permit.set_taken(true);
        }
        if let Stage::Pending { due, .. } = inner.stage {
            let ended = self.end(inner, Err(JobError::because(Error::shutdown())), Some(due));
            if !W::REPEATS {
                self.shard.give_permit_back();
            }
            drop(ended);
        }
    }
}

impl<W: Work, O: Owner> Drop for Record<W, O> {
    fn drop(&mut self) {
        if self.keeps_permit() {
            self.shard.forget_permit_of(self.address());
        }
    }
}
