//! Waking the task that waits when an item comes, moves or goes. (For an item that is due the sleep wakes it: see `poll`.) A
//! waker's panic is contained, so that a method returns what it has to.

use std::task::Waker;

use super::DelayQueue;
use crate::platform::catch_panic::contained;
use crate::wheel::Nanos;

impl<T> DelayQueue<T> {
    /// After an item has got that deadline: a task that waits is to be woken by then.
    #[inline]
    pub(super) fn be_in_time_for(&mut self, deadline: Nanos) {
        if let Some(sleep) = &mut self.sleep
            && let Some(armed) = sleep.armed()
        {
            if deadline <= self.deadlines.now() {
                sleep.wake();
            } else if !self.deadlines.is_in_time(armed, sleep.rounded(deadline)) {
                sleep.move_to(deadline);
            }
        }
    }

    /// Whoever waits for an item is told that there is none.
    pub(super) fn tell_that_it_is_empty(&mut self) {
        if let Some(sleep) = &mut self.sleep {
            sleep.wake();
        }
    }

    /// The task with this waker has been told that there is no item. It has no timer any more.
    pub(super) fn remember_told(&mut self, waker: &Waker) {
        if !self.told_empty.as_ref().is_some_and(|told| told.will_wake(waker)) {
            self.told_empty = Some(waker.clone());
        }
        if let Some(sleep) = &mut self.sleep {
            sleep.disarm();
        }
    }

    /// Whoever was told that there is no item is told that there is one.
    #[inline]
    pub(super) fn tell_that_it_is_not_empty(&mut self) {
        if let Some(told) = self.told_empty.take() {
            contained(|| told.wake());
        }
    }
}
