//! A rule as the schedule of a job.

use std::fmt;
use std::sync::{Arc, Mutex, Weak};

use jiff::Timestamp;
use timingwheel::job::{PendingRun, Previous, Schedule};
use tokio::time::Instant;

use super::state::State;
use super::{Missed, WallClock, lock};
use crate::rule::Rule;

/// A rule as a [`Schedule`] of one job, from [`WallClock::schedule`].
///
/// Each run follows from the instant that was scheduled before, and not from when that run began or ended. When the clock
/// is set, the pending run is computed anew. When it is set back, nothing runs twice, unless it is by more than three
/// hours: such a clock was wrong before, and the rule begins anew.
///
/// A job that is [reset](timingwheel::job::Repeating::reset) runs then, once, and the rule goes on as if it had run on
/// time.
///
/// # Examples
///
/// A program that was not there for three days, and knows from its store which run was the last:
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::{Arc, Mutex};
/// use std::time::Duration;
///
/// use jiff::{Timestamp, tz::TimeZone};
/// use timingwheel::TimingWheel;
/// use timingwheel_calendar::{Cron, Missed, WallClock};
///
/// let wheel = TimingWheel::new();
/// let clock = WallClock::starting_at(&wheel, "2026-06-04T12:00:00Z".parse()?);
/// let schedule = clock
///     .schedule(Cron::parse("0 9 * * *")?.in_zone(TimeZone::UTC))
///     .since("2026-06-01T09:00:00Z".parse()?)
///     .with_missed(Missed::each(2));
/// let (scheduled, runs) = (schedule.scheduled(), Arc::new(Mutex::new(Vec::new())));
/// let notes = Arc::clone(&runs);
/// let job = wheel.run_by(schedule, move || {
///     notes.lock().unwrap().push(scheduled.get().unwrap().to_string());
///     async {}
/// });
/// wheel.sleep(Duration::from_secs(24 * 60 * 60)).await;
/// job.cancel();
/// // Two of the three that were missed, at once, and the next on time.
/// let expected = ["2026-06-02T09:00:00Z", "2026-06-03T09:00:00Z", "2026-06-05T09:00:00Z"];
/// assert_eq!(*runs.lock().unwrap(), expected);
/// # Ok(())
/// # }
/// ```
#[must_use = "a schedule does nothing before a job is run by it"]
pub struct WallSchedule(Arc<Planned>);

/// What a schedule shares with its clock.
pub(super) struct Planned {
    clock: WallClock,
    state: Mutex<(State, Option<PendingRun>)>,
}

impl WallSchedule {
    pub(super) fn new(clock: WallClock, rule: Box<dyn Rule + Send>) -> Self {
        let state = State::new(rule, clock.now());
        Self(Arc::new(Planned { clock, state: Mutex::new((state, None)) }))
    }

    /// What becomes of runs that are missed; [`Missed::once`] unless it is set.
    pub fn with_missed(self, missed: Missed) -> Self {
        lock(&self.0.state).0.missed = missed;
        self
    }

    /// The instant that ran last, as a store has it: what has become due since then was missed. An instant to come is
    /// taken for now.
    pub fn since(self, last: Timestamp) -> Self {
        let now = self.0.clock.now();
        lock(&self.0.state).0.progress.last = last.min(now);
        self
    }

    /// Tells runs of the job for which instant they are.
    #[must_use]
    pub fn scheduled(&self) -> Scheduled {
        Scheduled(Arc::downgrade(&self.0))
    }
}

impl Schedule for WallSchedule {
    fn next(&mut self, _previous: Previous) -> Option<Instant> {
        let mut state = lock(&self.0.state);
        state.0.has_run();
        let planned = state.0.plan(self.0.clock.now())?;
        drop(state);
        Some(self.0.clock.instant(planned))
    }

    fn attach(&mut self, run: PendingRun) {
        lock(&self.0.state).1 = Some(run);
        self.0.clock.watch(&self.0);
    }
}

impl Planned {
    /// The clock was set.
    pub(super) fn plan_anew(&self) {
        let mut locked = lock(&self.state);
        let (state, Some(run)) = &mut *locked else { return };
        let before = state.progress;
        match state.plan(self.clock.now()) {
            Some(planned) if run.reset(self.clock.instant(planned)) => {}
            // A run is going on, and what comes after it is planned when it has ended.
            Some(_) => state.progress = before,
            None => {
                state.progress = before;
                let run = run.clone();
                // What the job runs is dropped by this, which may be code that asks for the state.
                drop(locked);
                run.end();
            }
        }
    }
}

impl fmt::Debug for WallSchedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let progress = lock(&self.0.state).0.progress;
        f.debug_struct("WallSchedule")
            .field("last", &progress.last)
            .field("planned", &progress.planned)
            .finish_non_exhaustive()
    }
}

/// For which instant the runs of a job are, from [`WallSchedule::scheduled`].
///
/// It is what a run notes in a store, so that the next start goes on from there: see [`WallSchedule::since`].
#[derive(Clone)]
pub struct Scheduled(Weak<Planned>);

impl Scheduled {
    /// The instant of the run that is going on, or else of the next one; `None` before the first is planned, and when the
    /// job is over.
    #[must_use]
    pub fn get(&self) -> Option<Timestamp> {
        lock(&self.0.upgrade()?.state).0.progress.planned
    }
}

impl fmt::Debug for Scheduled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Scheduled").field(&self.get()).finish()
    }
}
