//! The queue's task: which item it gets next, and when it is woken.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures::stream::{FusedStream, Stream};
use tokio::task::coop;

use super::{DelayQueue, Expired};
use crate::error::Error;
use crate::platform::wakers::contained;
use crate::timers::sleep::Sleep;
use crate::wheel::{Nanos, Progress};

/// Timers that are moved for one unit of the task's cooperative budget.
const BATCH: usize = 256;

impl<T> DelayQueue<T> {
    /// Polls for the next item whose deadline has come. `None` if the queue is empty; there may be more after an
    /// insertion, which wakes the task.
    ///
    /// After a pending poll the task is woken when an item is due, and when the last item is removed. It may be woken with
    /// nothing due: for timers that move to a finer level, or after an item was removed or reset to later. If several tasks poll,
    /// only the last is woken. Each item spends a unit of the task's cooperative budget.
    ///
    /// # Precision
    /// As [`TimingWheel::sleep`](crate::TimingWheel::sleep), with the tick of the wheel that the queue is on.
    ///
    /// # Cancel safety
    /// Nothing is lost by not polling again.
    ///
    /// # Panics
    /// If an item has to wait and the wheel has ended or is full.
    /// [`poll_try_expired`](Self::poll_try_expired) returns an error instead.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::{future::poll_fn, time::Duration};
    /// use timingwheel::time::DelayQueue;
    ///
    /// let mut queue = DelayQueue::new();
    /// queue.insert("tea", Duration::from_secs(180));
    /// queue.insert("egg", Duration::from_secs(300));
    /// while let Some(expired) = poll_fn(|cx| queue.poll_expired(cx)).await {
    ///     println!("{} is ready", expired.get_ref());
    /// }
    /// # }
    /// ```
    #[track_caller]
    pub fn poll_expired(&mut self, cx: &mut Context<'_>) -> Poll<Option<Expired<T>>> {
        match ready!(self.poll_try_expired(cx)) {
            None => Poll::Ready(None),
            Some(Ok(expired)) => Poll::Ready(Some(expired)),
            Some(Err(error)) => {
                panic!("a `DelayQueue` cannot wait for its next item: {error}")
            }
        }
    }

    /// Polls as [`poll_expired`](Self::poll_expired) does, but returns an error where that would panic.
    ///
    /// # Errors
    /// If an item has to wait and the wheel has ended or is full. The items stay: later polls hand out those that are due,
    /// and [`drain`](Self::drain) takes out all. Nothing wakes the task when a full wheel has room again: poll again after a
    /// while.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::{future::poll_fn, time::Duration};
    /// use timingwheel::TimingWheel;
    ///
    /// let wheel = TimingWheel::new();
    /// let mut queue = wheel.delay_queue();
    /// queue.insert("job", Duration::from_secs(60));
    /// wheel.shutdown();
    ///
    /// let error = poll_fn(|cx| queue.poll_try_expired(cx)).await.unwrap().unwrap_err();
    /// assert!(error.is_shutdown());
    /// for item in queue.drain() {
    ///     println!("not done: {}", item.into_inner());
    /// }
    /// # }
    /// ```
    pub fn poll_try_expired(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Expired<T>, Error>>> {
        // The time up to which this call has looked for due items.
        let mut looked = None;
        loop {
            if self.items.has_due() {
                ready!(coop::poll_proceed(cx)).made_progress();
                let popped = self.items.pop();
                return Poll::Ready(popped.map(|(key, item)| Ok(self.expired(item, key.index))));
            }
            let Some(at) = self.items.next_look() else {
                // An empty queue needs no timer.
                drop(self.sleep.as_mut().and_then(Sleep::take_waker));
                self.told_empty = Some(cx.waker().clone());
                return Poll::Ready(None);
            };
            let is_behind = self.items.is_behind();
            let sleep = self.sleep.as_mut().expect("an item comes after its wheel");
            if let Some(now) = looked
                && !is_behind
            {
                sleep.move_to(at, Some(now));
            }
            // A sleep that wakes the task too early stays, so an item that is reset again and again costs nothing here.
            let may_wait = !is_behind && (looked.is_some() || sleep.armed().is_some());
            let now = match may_wait.then(|| sleep.poll_unconstrained(cx)) {
                Some(Poll::Pending) => return Poll::Pending,
                // This thread may see another clock than the wheel, and the loop has to end.
                Some(Poll::Ready(Ok(()))) => sleep.shard().clock.now().max(sleep.deadline_nanos()),
                Some(Poll::Ready(Err(error))) if looked.is_some() => return Poll::Ready(Some(Err(error))),
                // Items that are due by now need no timer.
                _ => sleep.shard().clock.now(),
            };
            looked = Some(now);
            while self.items.advance(now, BATCH) == Progress::More {
                ready!(coop::poll_proceed(cx)).made_progress();
            }
        }
    }

    /// After an item has got this deadline, makes sure that a waiting task is woken in the deadline's tick.
    #[inline]
    pub(super) fn be_in_time_for(&mut self, deadline: Nanos, now: Option<Nanos>) {
        if let Some(sleep) = &mut self.sleep
            && let Some(armed) = sleep.armed()
            // Before the division that the end of the tick takes.
            && armed > deadline
            && armed > self.items.resolution().end_of_tick(deadline)
        {
            let now = now.unwrap_or_else(|| sleep.shard().clock.now());
            if deadline <= now { self.wake() } else { sleep.move_to(deadline, Some(now)) }
        }
    }

    /// Wakes the waiting task. A panic of the waker is contained, so that the method still returns its result.
    pub(super) fn wake(&mut self) {
        if let Some(waker) = self.sleep.as_mut().and_then(Sleep::take_waker) {
            contained(|| waker.wake());
        }
    }
}

impl<T> Stream for DelayQueue<T> {
    type Item = Expired<T>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Expired<T>>> {
        self.get_mut().poll_expired(cx)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.len(), Some(self.len()))
    }
}

/// Terminated after a poll has returned `None`, until the next insertion. A new queue is not terminated, so
/// `futures::select!` polls it, and the first insertion wakes the task.
impl<T> FusedStream for DelayQueue<T> {
    fn is_terminated(&self) -> bool {
        self.told_empty.is_some()
    }
}
