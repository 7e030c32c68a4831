//! Whoever waits for a job's end.

use std::task::Waker;

use super::info::JobState;

/// Whoever waits for one job.
pub(super) trait Waiter: Default + Send {
    /// The job is over. May call code of a user's.
    fn tell(self, state: JobState);
}

/// The task that awaits a handle.
pub(super) type Awaiting = Option<Waker>;

impl Waiter for Awaiting {
    fn tell(self, _state: JobState) {
        if let Some(waker) = self {
            waker.wake();
        }
    }
}
