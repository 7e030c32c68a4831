//! Schedules that end, and schedules whose runs may be late.

use tokio::time::Instant;

use super::{PendingRun, Previous, Schedule};
use crate::timers::tolerance::Tolerance;

/// A schedule for at most a number of runs, from [`Schedule::times`].
#[derive(Clone, Debug)]
pub struct Times<S> {
    schedule: S,
    left: u64,
}

impl<S> Times<S> {
    pub(super) const fn new(schedule: S, runs: u64) -> Self {
        Self { schedule, left: runs }
    }
}

impl<S: Schedule> Schedule for Times<S> {
    fn next(&mut self, previous: Previous) -> Option<Instant> {
        self.left = self.left.checked_sub(1)?;
        self.schedule.next(previous)
    }

    fn tolerance(&self) -> Option<Tolerance> {
        self.schedule.tolerance()
    }

    fn attach(&mut self, run: PendingRun) {
        self.schedule.attach(run);
    }
}

/// A schedule for the runs that are due by its end, from [`Schedule::until`].
#[derive(Clone, Debug)]
pub struct Until<S> {
    schedule: S,
    end: Instant,
}

impl<S> Until<S> {
    pub(super) const fn new(schedule: S, end: Instant) -> Self {
        Self { schedule, end }
    }
}

impl<S: Schedule> Schedule for Until<S> {
    fn next(&mut self, previous: Previous) -> Option<Instant> {
        self.schedule.next(previous).filter(|&next| next <= self.end)
    }

    fn tolerance(&self) -> Option<Tolerance> {
        self.schedule.tolerance()
    }

    fn attach(&mut self, run: PendingRun) {
        self.schedule.attach(run);
    }
}

/// A schedule whose runs may be late, from [`Schedule::with_tolerance`].
#[derive(Clone, Debug)]
pub struct Tolerant<S> {
    schedule: S,
    tolerance: Tolerance,
}

impl<S> Tolerant<S> {
    pub(super) const fn new(schedule: S, tolerance: Tolerance) -> Self {
        Self { schedule, tolerance }
    }
}

impl<S: Schedule> Schedule for Tolerant<S> {
    fn next(&mut self, previous: Previous) -> Option<Instant> {
        self.schedule.next(previous)
    }

    fn tolerance(&self) -> Option<Tolerance> {
        Some(self.tolerance)
    }

    fn attach(&mut self, run: PendingRun) {
        self.schedule.attach(run);
    }
}
