//! Schedules that end.

use tokio::time::Instant;

use super::{PendingRun, Previous, Schedule};

/// A schedule for so many runs at the most, from [`Schedule::times`].
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

    fn attach(&mut self, run: PendingRun) {
        self.schedule.attach(run);
    }
}
