//! Whoever waits for a job's end.

use std::task::Waker;

use futures::FutureExt;
use futures::channel::oneshot::{Receiver, Sender, channel};
use futures::future::Shared;

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

/// The tasks that await a job by its key.
#[derive(Default)]
pub(super) struct Joining(Option<(Sender<JobState>, Joined)>);

/// Ready with a job's last state, for any number of tasks.
pub(super) type Joined = Shared<Receiver<JobState>>;

impl Joining {
    pub(super) fn join(&mut self) -> Joined {
        let (_, joined) = self.0.get_or_insert_with(|| {
            let (sender, receiver) = channel();
            (sender, receiver.shared())
        });
        joined.clone()
    }
}

impl Waiter for Joining {
    fn tell(self, state: JobState) {
        if let Some((sender, _joined)) = self.0 {
            // Nobody may wait any more.
            let _ = sender.send(state);
        }
    }
}
