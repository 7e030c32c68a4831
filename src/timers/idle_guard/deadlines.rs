//! When the timer asks whoever waits, what has passed by then, and who has not answered: the rules of all limits.
//!
//! The limit for one direction counts from when its wait began, the idle limit from the last byte in either direction.
//! The earlier of the two counts. Of each the timer asks at its half and at its end.

use std::time::Duration;

use super::direction::Direction;
use super::limits::{Limits, Marks};
use super::waits::Waits;
use crate::error::Elapsed;
use crate::wheel::Nanos;

/// Within this time a task that the timer has woken polls, even on a busy machine. A later poll is another wait's.
const ANSWERED_WITHIN: Duration = Duration::from_secs(1);

/// Of a limit.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part {
    Half,
    Whole,
}

impl Waits {
    /// Somebody waits in this direction now.
    pub(super) fn note_halves(&mut self, direction: Direction, now: Nanos) {
        let of_own = self.own_at(direction, Part::Half) <= now;
        let of_idle = self.idle_at(Part::Half) <= now;
        self.limits.mark(direction, Marks::PAST_HALF, of_own);
        self.limits.mark(direction, Marks::PAST_HALF_OF_IDLE, of_idle);
    }

    /// Whether nobody polled when the timer woke the task.
    pub(super) fn was_given_up(&self, direction: Direction, now: Nanos) -> bool {
        let check = self.check(direction);
        let woken_at = if self.limits.marks(direction).has(Marks::WOKEN) {
            check
        } else {
            // Later than the check if a limit was set that had passed.
            check.max(self.timer.deadline_nanos())
        };
        now > woken_at.after(ANSWERED_WITHIN)
    }

    /// When the wait has taken too long: late by as much as it may be.
    pub(super) fn deadline(&self, direction: Direction) -> Nanos {
        self.own_at(direction, Part::Whole).min(self.idle_at(Part::Whole))
    }

    /// When the timer is to wake whoever waits: after half of a limit, then at the deadline.
    #[inline]
    pub(super) fn check(&self, direction: Direction) -> Nanos {
        let marks = self.limits.marks(direction);
        let part = |past_half| if marks.has(past_half) { Part::Whole } else { Part::Half };
        let own = self.own_at(direction, part(Marks::PAST_HALF));
        own.min(self.idle_at(part(Marks::PAST_HALF_OF_IDLE)))
    }

    /// When so much of the limit for this direction alone has passed.
    #[inline]
    pub(super) fn own_at(&self, direction: Direction, part: Part) -> Nanos {
        self.at(self.since[direction.index()], self.limits.own(direction), part)
    }

    /// When so much of the limit for both has passed.
    #[inline]
    pub(super) fn idle_at(&self, part: Part) -> Nanos {
        match &self.limits {
            Limits::Same { .. } => Nanos::MAX,
            Limits::Apart { rest, .. } => self.at(rest.idle_since, rest.idle, part),
        }
    }

    #[inline]
    fn at(&self, since: Nanos, limit: Nanos, part: Part) -> Nanos {
        match (limit, part) {
            (Nanos::MAX, _) => Nanos::MAX,
            (limit, Part::Half) => self.rounded(since, Nanos(limit.0 / 2), limit),
            (limit, Part::Whole) => self.rounded(since, limit, limit),
        }
    }

    #[inline]
    fn rounded(&self, since: Nanos, after: Nanos, limit: Nanos) -> Nanos {
        let at = Nanos(since.0.saturating_add(after.0));
        if self.limits.has_slack() {
            let resolution = self.timer.resolution();
            if let Some(grid) = self.limits.slack().grid(resolution, limit) {
                return resolution.round_up(at, grid);
            }
        }
        at
    }

    /// Which limit it is that has passed.
    pub(super) fn elapsed(&self, direction: Direction, now: Nanos) -> Elapsed {
        let own = self.limits.own(direction);
        if own == Nanos::MAX || self.own_at(direction, Part::Whole) > now {
            return Elapsed::of_idle_limit(self.limits.idle());
        }
        match direction {
            Direction::Read => Elapsed::of_read_limit(own),
            Direction::Write => Elapsed::of_write_limit(own),
        }
    }
}
