//! Taking items out as their deadlines come.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures::stream::{FusedStream, Stream};
use tokio::task::coop;

use super::deadlines::Next;
use super::{DelayQueue, Expired};
use crate::error::Error;

/// Timers that are moved for one unit of the task's cooperative budget.
const BATCH: usize = 256;

impl<T> DelayQueue<T> {
    /// Polls for the next item whose deadline has come. `None` if the queue is empty; there may be more after an
    /// insertion, which wakes the task.
    ///
    /// A pending poll wakes the task when an item is due, when another item becomes the earliest, and when the last
    /// item is removed. Now and then the task is woken with nothing due: in a queue of more than 8 items, or after an
    /// item was removed or reset to later. If several tasks poll, only the last that polled is woken. An item spends a
    /// unit of the task's cooperative budget.
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
                panic!("a `DelayQueue` was polled whose next item cannot become due: {error}")
            }
        }
    }

    /// Polls as [`poll_expired`](Self::poll_expired) does, but returns an error where that would panic.
    ///
    /// # Errors
    /// If an item has to wait and the wheel has ended or is full. The items stay: those whose
    /// deadline comes are handed out at later polls, and [`drain`](Self::drain) takes out all of them. Nothing wakes the task
    /// when a permit becomes free: poll again after a while, or after an insertion.
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
        let mut has_looked = false;
        loop {
            let at = match self.deadlines.next_step(BATCH) {
                Next::Due => {
                    ready!(coop::poll_proceed(cx)).made_progress();
                    let popped = self.deadlines.pop().map(|(key, item)| Ok(self.expired(key, item)));
                    return Poll::Ready(popped);
                }
                Next::More => {
                    ready!(coop::poll_proceed(cx)).made_progress();
                    continue;
                }
                Next::Empty => {
                    self.remember_told(cx.waker());
                    return Poll::Ready(None);
                }
                Next::Until(at) => at,
            };
            let sleep = self.sleep.as_mut().expect("an item comes after its wheel");
            // Woken before the time, the task moves it on then: so an item that is reset again and again costs nothing
            // here.
            if sleep.armed().is_none_or(|armed| armed > sleep.rounded(at)) {
                if !has_looked {
                    has_looked = true;
                    self.deadlines.set_now(sleep.now());
                    continue;
                }
                sleep.move_to_at(self.deadlines.now(), at);
            }
            let now = match ready!(sleep.poll_try_wait(cx)) {
                // The wheel's word counts, so that there is an end to this also where this thread has another clock.
                Ok(()) => sleep.now().max(sleep.deadline_nanos()),
                // What has come due meanwhile needs no timer.
                Err(_) if !has_looked => sleep.now(),
                Err(error) => return Poll::Ready(Some(Err(error))),
            };
            has_looked = true;
            self.deadlines.set_now(now);
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

/// Terminated from when a poll has returned `None` until an item is inserted. So `futures::select!` polls a new queue,
/// which wakes its task at the first insertion.
impl<T> FusedStream for DelayQueue<T> {
    fn is_terminated(&self) -> bool {
        self.told_empty.is_some()
    }
}
