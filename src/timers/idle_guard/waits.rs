//! How long a stream's reads and writes have waited, and the one timer for both.
//!
//! A wait begins when an operation finds the stream not ready and ends when one is ready. Between the two the caller may
//! poll again, drop the operation and begin another, or do something else: nothing tells the guard of a drop. So the timer
//! asks. It comes due when half of the limit has passed, and at the end, and wakes the task. Whoever waits is polled then.
//! Where nobody is, the operation has been dropped, and the next one begins a wait of its own.
//!
//! The timer is at the earlier of the next *checks* of both waits, or somewhere before that: a wait that ends leaves the
//! timer where it is. So the timer may come due too early. Then whoever is woken by it polls again, and that moves it.
//!
//! Of the direction that is not being polled this holds: while it waits, either the timer is pending, no later than its
//! check and with its waker, or its task has been woken since it last polled.

use std::io;
use std::task::{Context, Poll, Waker, ready};

use tokio::task::coop;

use super::direction::{Direction, Operation};
use super::limits::{Limits, Marks};
use super::wakers::Wakers;
use crate::error::{Elapsed, Error};
use crate::platform::catch_panic::contained;
use crate::timers::sleep::Sleep;
use crate::timers::tolerance::Slack;
use crate::wheel::Nanos;

#[derive(Debug)]
pub(super) struct Waits {
    pub(super) timer: Sleep,
    /// When the wait of each direction began; `MAX` while there is none. There is none without a limit.
    pub(super) since: [Nanos; 2],
    pub(super) limits: Limits,
}

impl Waits {
    /// Without limits. The timer has not been polled.
    pub(super) const fn new(timer: Sleep) -> Self {
        Self { timer, since: [Nanos::MAX; 2], limits: Limits::NONE }
    }

    /// The operation found the stream not ready. Ready with an error if it has waited for too long, or cannot be timed;
    /// the next one then starts anew.
    #[inline]
    pub(super) fn poll(&mut self, operation: Operation, cx: &mut Context<'_>) -> Poll<io::Error> {
        let limits = &self.limits;
        if limits.own(operation.direction()) == Nanos::MAX && limits.idle() == Nanos::MAX {
            return Poll::Pending;
        }
        if self.begins_with_timer_in_place(operation, cx.waker()) {
            return Poll::Pending;
        }
        self.poll_limited(operation, cx)
    }

    /// The usual beginning of a wait, which does what [`poll_limited`](Self::poll_limited) would, and no more: there is
    /// one limit, nobody waits in the other direction, and the timer is pending with this waker at a time where it may
    /// stay. Returns whether that is so; otherwise nothing has changed.
    #[inline]
    fn begins_with_timer_in_place(&mut self, operation: Operation, waker: &Waker) -> bool {
        let Limits::Same { slack: Slack::None, marks, limit } = &mut self.limits else { return false };
        if self.since != [Nanos::MAX; 2] || !self.timer.waits_for(waker) {
            return false;
        }
        let now = self.timer.now();
        let half = limit.0 / 2;
        let left = self.timer.deadline_nanos().0.saturating_sub(now.0);
        // Not later than half of the limit, and not so soon that it would wake the task for nothing.
        if half == 0 || left > half || (left < half && left < half / 2) {
            return false;
        }
        let direction = operation.direction().index();
        self.since[direction] = now;
        marks[direction] = Marks::beginning(operation == Operation::Flush);
        true
    }

    fn poll_limited(&mut self, operation: Operation, cx: &mut Context<'_>) -> Poll<io::Error> {
        let direction = operation.direction();
        self.limits.mark(direction, Marks::OF_FLUSH, operation == Operation::Flush);
        let elapsed = ready!(self.poll_deadline(direction, cx));
        // With its budget spent a task finds every stream not ready, whatever has arrived. It is polled again soon. And a
        // task that only ever finds its limits passed has to let others run.
        ready!(coop::poll_proceed(cx)).made_progress();
        self.since[direction.index()] = Nanos::MAX;
        if self.limits.idle() != Nanos::MAX {
            self.begin_silence(self.timer.now());
        }
        Poll::Ready(elapsed.into())
    }

    fn poll_deadline(&mut self, direction: Direction, cx: &mut Context<'_>) -> Poll<Elapsed> {
        if !self.is_waiting(direction) {
            self.begin(direction);
        } else if self.timer.has_come_to(self.check(direction))
            && let Some(elapsed) = self.look(direction)
        {
            // The timer stays for the other, or is on its way out and wakes both.
            return Poll::Ready(elapsed);
        }
        self.limits.mark(direction, Marks::WOKEN, false);
        self.register(direction, cx.waker());
        let mut must_move = false;
        loop {
            let earliest = self.earliest(direction);
            if must_move || earliest < self.timer.deadline_nanos() {
                // Not into the past: it is from then on that an answer is expected.
                self.move_timer(None, earliest.max(self.timer.now()));
            }
            let result = ready!(self.poll_timer(cx));
            // Whatever this finds, it has used the timer up, by which the other would have been woken.
            self.wake_other(direction, cx.waker());
            if let Err(error) = result {
                return Poll::Ready(Elapsed::because(error));
            }
            if self.check(direction) <= self.timer.deadline_nanos()
                && let Some(elapsed) = self.look(direction)
            {
                return Poll::Ready(elapsed);
            }
            must_move = true;
        }
    }

    fn begin(&mut self, direction: Direction) {
        let now = self.timer.now();
        self.restart(direction, now, !self.is_waiting(direction.other()));
        // A timer that would soon wake the task for nothing is moved; any other stays, which spares the lock.
        let earliest = self.earliest(direction);
        let at = self.timer.deadline_nanos();
        let left = at.0.saturating_sub(now.0);
        if earliest < at || (earliest > at && left < earliest.0.saturating_sub(now.0) / 2) {
            self.move_timer(Some(now), earliest);
        }
    }

    /// The wait begins now. The silence does too if nobody waits in the other direction.
    fn restart(&mut self, direction: Direction, now: Nanos, is_alone: bool) {
        self.since[direction.index()] = now;
        if is_alone {
            self.begin_silence(now);
        }
        self.note_halves(direction, now);
    }

    /// The timer has come to the check: whether the wait has been too long.
    fn look(&mut self, direction: Direction) -> Option<Elapsed> {
        // Not before it, whatever a clock does that can be paused.
        let now = self.timer.now().max(self.check(direction));
        if self.was_given_up(direction, now) {
            let other = direction.other();
            self.restart(direction, now, !self.is_waiting(other) || self.was_given_up(other, now));
            None
        } else if self.deadline(direction) <= now {
            Some(self.elapsed(direction, now))
        } else {
            self.note_halves(direction, now);
            None
        }
    }

    /// Sees to it that the timer wakes whoever waits in both directions.
    fn register(&mut self, direction: Direction, waker: &Waker) {
        let other = direction.other();
        let other_waits = self.is_waiting(other);
        if let Limits::Apart { rest, .. } = &mut self.limits {
            rest.wakers.register(direction, waker, other_waits);
        } else if self.needs_timer(other) && !self.timer.is_registered_for(waker) {
            // First, as it may panic.
            let ours = waker.clone();
            match self.timer.take_waker() {
                Some(theirs) => self.limits.apart().wakers = Wakers::of(direction, ours, theirs),
                None => self.limits.mark(other, Marks::WOKEN, true),
            }
        }
    }

    fn poll_timer(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        match &self.limits {
            Limits::Same { .. } => self.timer.poll_try_wait(cx),
            Limits::Apart { rest, .. } => {
                rest.wakers.with(|waker| self.timer.poll_try_wait(&mut Context::from_waker(waker)))
            }
        }
    }

    /// Wakes who waits in the other direction, if the timer was to do that. `waker` is that of this one.
    fn wake_other(&mut self, direction: Direction, waker: &Waker) {
        let other = direction.other();
        if self.needs_timer(other) {
            self.limits.mark(other, Marks::WOKEN, true);
            match &self.limits {
                // It is the same task.
                Limits::Same { .. } => _ = contained(|| waker.wake_by_ref()),
                Limits::Apart { rest, .. } => rest.wakers.wake(other),
            }
        }
    }

    /// Moves the timer, to a deadline that was rounded if there is slack. `now` is the time, if the caller has looked.
    pub(super) fn move_timer(&mut self, now: Option<Nanos>, to: Nanos) {
        let timer = &mut self.timer;
        match now {
            _ if self.limits.has_slack() => timer.move_to_rounded(now.unwrap_or_else(|| timer.now()), to),
            Some(now) => timer.move_to_at(now, to),
            None => timer.move_to(to),
        }
    }

    #[inline]
    pub(super) fn is_waiting(&self, direction: Direction) -> bool {
        self.since[direction.index()] != Nanos::MAX
    }

    /// Whether the timer has to wake whoever waits: not if nobody does, or if that was done.
    pub(super) fn needs_timer(&self, direction: Direction) -> bool {
        self.is_waiting(direction) && !self.limits.marks(direction).has(Marks::WOKEN)
    }

    /// The earlier of this check and the other's, if that needs the timer.
    fn earliest(&self, direction: Direction) -> Nanos {
        let check = self.check(direction);
        let other = direction.other();
        if self.needs_timer(other) { check.min(self.check(other)) } else { check }
    }
}
