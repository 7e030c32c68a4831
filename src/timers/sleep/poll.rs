//! Polling a sleep.

use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use tokio::task::coop;

use super::{Sleep, State};
use crate::error::Error;
use crate::platform::waker_id::WakerId;
use crate::wheel::{Key, Nanos};

impl Sleep {
    /// Polls as the future does, but returns an error where that would panic, and spends none of the task's
    /// cooperative budget.
    ///
    /// With a waker of your own for each timer, one task can look after any number of timers: the example `cache` does
    /// that.
    ///
    /// # Errors
    /// If the wheel ended before the deadline, or if the wheel was full.
    #[inline]
    pub fn poll_try_wait(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if self.waits_for(cx.waker()) { Poll::Pending } else { self.poll_changed(cx) }
    }

    /// Whether nothing has happened since a poll by the same waker.
    #[inline]
    pub(crate) fn waits_for(&self, current: &Waker) -> bool {
        match self.state.unpack() {
            State::Registered { key: _, waker: Some(waker) } => {
                waker.is_of(current) && !self.shard.has_reached(self.deadline)
            }
            _ => false,
        }
    }

    /// Apart, so that polling again takes no register from the caller.
    #[inline(never)]
    fn poll_changed(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.poll_anew(cx)
    }

    /// Polls where something may have happened.
    #[inline(always)]
    fn poll_anew(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let waker = cx.waker();
        let result = match self.state.unpack() {
            state @ (State::MadeAt(_) | State::Unregistered) => {
                let now = if let State::MadeAt(now) = state { now } else { self.now() };
                if self.take_over(now, waker) {
                    return Poll::Pending;
                }
                ready!(self.register(now, waker)?.map(Ok))
            }
            State::RoundedAt(rounded_at) => {
                let now = if self.shard.is_pausable() { self.now() } else { rounded_at };
                ready!(self.register(now, waker)?.map(Ok))
            }
            State::Registered { key, waker: _ } => ready!(self.poll_registered(key, waker)),
            State::Due | State::Elapsed => Ok(()),
        };
        self.state.set(if result.is_ok() { State::Elapsed } else { State::Unregistered });
        Poll::Ready(result)
    }

    /// Gives the entry another waker, if it is still there.
    #[inline(never)]
    fn poll_registered(&mut self, key: Key, waker: &Waker) -> Poll<Result<(), Error>> {
        if !self.shard.has_reached(self.deadline) {
            let current = waker.clone();
            let id = WakerId::of(&current);
            if let Ok(before) = self.shard.set_waker(key, current) {
                self.state.set(State::Registered { key, waker: id });
                // Last, as it may panic: what is remembered has to be true then.
                drop(before);
                return Poll::Pending;
            }
        }
        Poll::Ready(self.shard.finish(key, self.deadline))
    }

    /// Takes over the entry of a dropped timer, if that was one of the same task.
    #[inline(always)]
    fn take_over(&mut self, now: Nanos, waker: &Waker) -> bool {
        let Some(id) = WakerId::of(waker) else { return false };
        let Some(key) = self.shard.take_over(now, self.deadline, waker, id) else { return false };
        self.state.set(State::Registered { key, waker: Some(id) });
        true
    }

    /// Adds the entry; ready if the deadline has passed by `now`.
    #[inline(never)]
    pub(super) fn register(&mut self, now: Nanos, waker: &Waker) -> Result<Poll<()>, Error> {
        // Of the clone, which is the one that stays: it need not have the address of the original.
        let waker = waker.clone();
        let id = WakerId::of(&waker);
        match self.shard.register_or_take_over(now, self.deadline, waker)? {
            None => Ok(Poll::Ready(())),
            Some(key) => {
                self.state.set(State::Registered { key, waker: id });
                Ok(Poll::Pending)
            }
        }
    }

    /// As [`poll_try_wait`](Self::poll_try_wait), but spends a unit of the task's cooperative budget, and is pending where
    /// that is used up: a task that only ever finds its timers elapsed has to let others run, as with tokio's.
    #[inline(always)]
    pub(crate) fn poll_in_budget(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if self.waits_for(cx.waker()) { Poll::Pending } else { self.poll_changed_in_budget(cx) }
    }

    #[inline(never)]
    fn poll_changed_in_budget(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let result = ready!(self.poll_anew(cx));
        let Poll::Ready(budget) = coop::poll_proceed(cx) else {
            if result.is_ok() {
                self.state.set(State::Due);
            }
            return Poll::Pending;
        };
        budget.made_progress();
        Poll::Ready(result)
    }
}

impl Future for Sleep {
    type Output = ();

    /// # Panics
    /// If it cannot become ready, because its wheel has ended or is full. The message names the line of the `.await`,
    /// unless the sleep is polled by way of `&mut`, `select!` or the like.
    #[inline]
    #[track_caller]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        match ready!(self.poll_in_budget(cx)) {
            Ok(()) => Poll::Ready(()),
            Err(error) => {
                panic!("a `Sleep` was polled that cannot become ready: {error}")
            }
        }
    }
}
