//! The tasks that await one job by its key.
//!
//! A list of our own: `futures::Shared` wakes all its tasks under its lock, so that a waker which drops another wait for
//! the same job would never return, and a waker that panics would keep the tasks after it from being woken. The latter
//! also holds for tokio's `Notify` and `watch`.

use std::mem;
use std::sync::Arc;
use std::task::{Poll, Waker};

use slab::Slab;

use super::info::JobState;
use super::waiter::Waiter;
use crate::platform::catch_panic::contained;
use crate::platform::sync::ShortLock;

/// Which tasks wait for a job's end, and how it ended. It takes no memory until a task waits.
#[derive(Default)]
pub(super) struct Joining(Option<Arc<ShortLock<Tasks>>>);

enum Tasks {
    Waiting(Slab<Waker>),
    Told(JobState),
}

impl Joining {
    pub(super) fn join(&mut self) -> Joined {
        let new = || Arc::new(ShortLock::new(Tasks::Waiting(Slab::new())));
        Joined { tasks: self.0.get_or_insert_with(new).clone(), place: None }
    }

    #[inline]
    fn tell_once(&mut self, state: JobState) {
        if let Some(tasks) = self.0.take() {
            tell_all(&tasks, state);
        }
    }
}

fn tell_all(tasks: &ShortLock<Tasks>, state: JobState) {
    let before = mem::replace(&mut *tasks.lock(), Tasks::Told(state));
    let Tasks::Waiting(wakers) = before else { return };
    for (_, waker) in wakers {
        contained(|| waker.wake());
    }
}

impl Waiter for Joining {
    #[inline]
    fn tell(mut self, state: JobState) {
        self.tell_once(state);
    }
}

impl Drop for Joining {
    /// The record of the job is gone without an end, as its wheel is.
    #[inline]
    fn drop(&mut self) {
        self.tell_once(JobState::CouldNotRun);
    }
}

/// One wait for a job's end.
pub(super) struct Joined {
    tasks: Arc<ShortLock<Tasks>>,
    /// Of its waker, if it has waited.
    place: Option<usize>,
}

impl Joined {
    /// The job's last state, if it is over.
    pub(super) fn told(&self) -> Option<JobState> {
        match &*self.tasks.lock() {
            Tasks::Told(state) => Some(*state),
            Tasks::Waiting(_) => None,
        }
    }

    /// Ready with the job's last state. Wakers are cloned and dropped without the lock: that may run a user's code.
    pub(super) fn poll(&mut self, waker: &Waker) -> Poll<JobState> {
        let mut clone = None;
        loop {
            let mut tasks = self.tasks.lock();
            let wakers = match &mut *tasks {
                Tasks::Told(state) => return Poll::Ready(*state),
                Tasks::Waiting(wakers) => wakers,
            };
            if self.place.is_some_and(|place| wakers[place].will_wake(waker)) {
                return Poll::Pending;
            }
            let Some(clone) = clone.take() else {
                drop(tasks);
                clone = Some(waker.clone());
                continue;
            };
            let before = match self.place {
                Some(place) => Some(mem::replace(&mut wakers[place], clone)),
                None => {
                    self.place = Some(wakers.insert(clone));
                    None
                }
            };
            drop(tasks);
            drop(before);
            return Poll::Pending;
        }
    }
}

impl Clone for Joined {
    /// Another wait, which has no waker yet.
    fn clone(&self) -> Self {
        Self { tasks: self.tasks.clone(), place: None }
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        let Some(place) = self.place else { return };
        let waker = match &mut *self.tasks.lock() {
            Tasks::Waiting(wakers) => Some(wakers.remove(place)),
            Tasks::Told(_) => None,
        };
        drop(waker);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn whoever_waits_for_a_record_that_is_gone_is_told_that_it_could_not_run() {
        let mut joining = Joining::default();
        let mut joined = joining.join();
        assert_eq!(joined.poll(Waker::noop()), Poll::Pending);
        drop(joining);
        assert_eq!(joined.poll(Waker::noop()), Poll::Ready(JobState::CouldNotRun));
    }
}
