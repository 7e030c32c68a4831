//! Without the feature `tracing`.

use crate::error::Error;
use crate::id::TimerId;
use crate::runner::Stopped;

#[derive(Debug)]
pub(crate) struct Events;

impl Events {
    pub(crate) const fn new() -> Self {
        Self
    }

    pub(crate) fn begins(&self, _wheel: &str, _epoch: u64) {}

    pub(crate) fn failed(&self, _error: &Error, _errors: u64) {}

    pub(crate) fn buried(&self, _id: TimerId, _attempt: u32, _reason: &str) {}

    pub(crate) fn retried(&self, _id: TimerId, _attempt: u32, _error: &str) {}

    pub(crate) fn clock_was_set(&self) {}

    pub(crate) fn lost(&self, _epoch: u64) {}

    pub(crate) fn lease_lost(&self, _epoch: u64) {}

    pub(crate) fn joined_again(&self, _before: u64, _epoch: u64) {}

    pub(crate) fn stopped(&self, _stopped: &Stopped) {}
}
