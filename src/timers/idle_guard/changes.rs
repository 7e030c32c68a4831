//! What the owner of a guard sets, also while something waits.

use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use super::deadlines::Part;
use super::direction::Direction;
use super::last_use_for_events::LastUse;
use super::limits::{Apart, Limits, Marks};
use super::waits::Waits;
use super::wakers::Wakers;
use crate::platform::catch_panic::contained;
use crate::timers::tolerance::{Slack, Tolerance};
use crate::wheel::Nanos;

const fn to_duration(limit: Nanos) -> Option<Duration> {
    match limit {
        Nanos::MAX => None,
        limit => Some(limit.to_duration()),
    }
}

fn to_nanos(limit: Option<Duration>) -> Nanos {
    limit.map_or(Nanos::MAX, Nanos::from_duration)
}

impl Waits {
    pub(super) const fn limit(&self, direction: Direction) -> Option<Duration> {
        to_duration(self.limits.own(direction))
    }

    pub(super) const fn idle_limit(&self) -> Option<Duration> {
        to_duration(self.limits.idle())
    }

    pub(super) fn set_limit(&mut self, direction: Direction, limit: Option<Duration>) {
        let limit = to_nanos(limit);
        if limit == self.limits.own(direction) {
            return;
        }
        self.change(|waits| {
            if !waits.limits.takes(direction, limit) {
                waits.apart();
            }
            waits.limits.set_own(direction, limit);
        });
    }

    pub(super) fn set_idle_limit(&mut self, limit: Option<Duration>) {
        let limit = to_nanos(limit);
        if limit == self.limits.idle() {
            return;
        }
        self.change(|waits| {
            let is_new = waits.limits.idle() == Nanos::MAX;
            waits.apart().idle = limit;
            if is_new {
                waits.begin_silence(waits.timer.now());
            }
        });
    }

    /// Lets the ends of both directions' waits be late.
    pub(super) fn set_tolerance(&mut self, tolerance: Tolerance) {
        self.change(|waits| waits.limits.set_slack(Slack::new(tolerance, waits.timer.resolution())));
    }

    /// Whoever polls next begins to wait.
    pub(super) const fn restart_all(&mut self) {
        self.since = [Nanos::MAX; 2];
    }

    /// When there was traffic, noted from now on.
    pub(super) fn last_use(&mut self) -> Arc<LastUse> {
        let now = self.timer.now();
        self.apart().last_use.get_or_insert_with(|| Arc::new(LastUse::new(now))).clone()
    }

    fn change(&mut self, change: impl FnOnce(&mut Self)) {
        let any_ended = self.end_given_up();
        change(self);
        self.limits_changed(any_ended);
    }

    /// Ends the waits of those who have not answered the timer, which only the limits before a change can tell. Returns
    /// whether there were any.
    fn end_given_up(&mut self) -> bool {
        let mut any_ended = false;
        for direction in Direction::BOTH {
            if self.is_waiting(direction) && self.was_given_up(direction, self.timer.now()) {
                self.since[direction.index()] = Nanos::MAX;
                any_ended = true;
            }
        }
        any_ended
    }

    /// Whoever waits in a task of its own does not know of it.
    fn limits_changed(&mut self, any_ended: bool) {
        for direction in Direction::BOTH {
            if self.limits.own(direction) == Nanos::MAX && self.limits.idle() == Nanos::MAX {
                self.since[direction.index()] = Nanos::MAX;
            } else if self.is_waiting(direction) {
                // Its check does not tell any more when it was woken. The time of the timer does.
                self.limits.mark(direction, Marks::WOKEN, false);
                self.ask_again(direction);
            }
        }
        let need = Direction::BOTH.into_iter().filter(|&direction| self.needs_timer(direction));
        if let Some(check) = need.map(|direction| self.check(direction)).min()
            && check != self.timer.deadline_nanos()
        {
            let now = self.timer.now();
            // Where the wheel is late, the timer has not woken the one whose wait has ended: it does so at once. Nor is it
            // moved into the past: it is from its time on that an answer is expected.
            self.move_timer(None, if any_ended { now } else { check.max(now) });
        }
    }

    /// Where half of a longer limit has not passed yet, the timer asks then too.
    fn ask_again(&mut self, direction: Direction) {
        let now = self.timer.now();
        if self.own_at(direction, Part::Half) > now {
            self.limits.mark(direction, Marks::PAST_HALF, false);
        }
        if self.idle_at(Part::Half) > now {
            self.limits.mark(direction, Marks::PAST_HALF_OF_IDLE, false);
        }
    }

    /// What stands apart; from now on it does.
    fn apart(&mut self) -> &mut Apart {
        if let Limits::Same { .. } = self.limits {
            let waker = self.timer.take_waker();
            let is_registered = waker.as_ref().is_none_or(|waker| self.is_registered_again(waker));
            self.limits.apart().wakers = Wakers::one(waker.unwrap_or_else(|| Waker::noop().clone()));
            if !is_registered {
                self.wake_all();
            }
        }
        self.limits.apart()
    }

    /// Not if the timer has come due, or cannot run.
    fn is_registered_again(&mut self, waker: &Waker) -> bool {
        self.timer.poll_try_wait(&mut Context::from_waker(waker)).is_pending()
    }

    fn wake_all(&mut self) {
        for direction in Direction::BOTH {
            self.limits.mark(direction, Marks::WOKEN, true);
        }
        let Limits::Apart { rest, .. } = &self.limits else { return };
        contained(|| rest.wakers.with(Waker::wake_by_ref));
    }
}
