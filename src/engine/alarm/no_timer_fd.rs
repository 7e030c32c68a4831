//! Stands in for `timer_fd` where there are no timerfds.

use std::task::Waker;
use std::time::Duration;

/// Has no values.
#[derive(Debug)]
pub(super) enum TimerFd {}

impl TimerFd {
    pub(super) fn in_current_runtime(_waker: Waker) -> Option<Self> {
        None
    }

    pub(super) fn set(&self, _delay: Duration) {
        match *self {}
    }

    pub(super) fn await_next(&self) {
        match *self {}
    }
}
