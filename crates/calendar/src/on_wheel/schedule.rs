//! A rule as the schedule of a job.

use std::fmt;
use std::sync::{Arc, Mutex, Weak};

use jiff::Timestamp;
use timingwheel_jobs::{LastRun, PendingRun, Replanned, Schedule};
use tokio::time::Instant;

use super::clock::Reading;
use super::next_run::NextRun;
use super::{WallClock, lock};
use crate::missed::Missed;
use crate::rule::Rule;

/// A rule as a [`Schedule`] of one job, from [`WallClock::schedule`].
///
/// Each run follows from the instant that was scheduled before, and not from when that run began or ended. When the clock
/// is set, the pending run is computed anew.
///
/// | the clock is set back | fixed times | [intervals](Rule::is_interval) |
/// |---|---|---|
/// | by up to three hours | nothing runs twice | if by more than a period, the rule goes by the new time at once; else nothing runs twice |
/// | by more | it was wrong before, and the rule begins anew | the same |
///
/// An instant that has not run still comes, even if the clock has shown a later one.
///
/// A job that is [reset](timingwheel_jobs::Repeating::reset) runs then, once, and the rule goes on as if it had run on
/// time. That run stays where the reset has put it if the clock is set before it, even past the rule's end. The run after
/// it is by the clock again.
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
/// use timingwheel_jobs::JobsExt;
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

/// The state that a schedule shares with its clock.
pub(super) struct Planned {
    clock: WallClock,
    inner: Mutex<Inner>,
}

struct Inner {
    state: NextRun,
    /// `None` before there is a job.
    run: Option<PendingRun>,
    /// Whether the clock was set when the run could not be moved.
    needs_plan: bool,
}

impl WallSchedule {
    pub(super) fn new(clock: WallClock, rule: Box<dyn Rule + Send>) -> Self {
        let state = NextRun::new(rule, clock.reading());
        let inner = Inner { state, run: None, needs_plan: false };
        Self(Arc::new(Planned { clock, inner: Mutex::new(inner) }))
    }

    /// The policy for missed runs; [`Missed::once`] unless it is set.
    pub fn with_missed(self, missed: Missed) -> Self {
        lock(&self.0.inner).state.missed = missed;
        self
    }

    /// The instant of the last run, as a store has it. All instants since then count as missed. An instant that is
    /// still to come counts as now.
    pub fn since(self, last: Timestamp) -> Self {
        let now = self.0.clock.now();
        lock(&self.0.inner).state.has_run_until(last.min(now));
        self
    }

    /// Returns a handle by which a run of the job learns for which instant it runs.
    #[must_use]
    pub fn scheduled(&self) -> Scheduled {
        Scheduled(Arc::downgrade(&self.0))
    }
}

impl Schedule for WallSchedule {
    fn next(&mut self, _last: LastRun) -> Option<Instant> {
        let mut inner = lock(&self.0.inner);
        let now = self.0.clock.reading();
        inner.state.has_run();
        inner.needs_plan = false;
        let planned = inner.state.plan(now)?;
        let has_job = inner.run.is_some();
        drop(inner);
        if has_job {
            self.0.clock.see_to_looks();
        }
        Some(now.instant(planned))
    }

    /// Whether the run is so late that its policy leaves it out, for example because the process was stopped over the due time.
    fn leaves_out(&mut self) -> bool {
        let now = self.0.clock.now();
        lock(&self.0.inner).state.is_left_out(now)
    }

    fn attach(&mut self, run: PendingRun) {
        lock(&self.0.inner).run = Some(run);
        self.0.clock.watch(&self.0);
    }
}

impl Planned {
    /// Plans the pending run anew, as the clock was set. Returns `false` if the run could not be moved, and the caller has
    /// to call this again.
    pub(super) fn plan_anew(&self) -> bool {
        let mut locked = lock(&self.inner);
        let Inner { state, run: Some(run), needs_plan } = &mut *locked else { return true };
        let (before, now) = (state.progress, self.clock.reading());
        let next = state.plan(now).map(|planned| now.instant(planned));
        *needs_plan = false;
        let replanned = if next.is_some() {
            let replanned = run.replan(next);
            if replanned != Replanned::Done {
                state.progress = before;
            }
            replanned
        } else {
            state.progress = before;
            let run = run.clone();
            // This drops the job's work, whose own drop may ask for the state.
            drop(locked);
            let replanned = run.replan(None);
            locked = lock(&self.inner);
            replanned
        };
        // A run that the user has moved stays. The run after it is planned when it has ended.
        if replanned != Replanned::NotPending {
            return true;
        }
        // A run is going on, and the next one is planned when it has ended. Or it has just ended, and the next one was planned by
        // the old clock, but does not wait yet.
        locked.needs_plan = true;
        false
    }

    /// The reading by which the next run is planned.
    pub(super) fn reading(&self) -> Reading {
        lock(&self.inner).state.progress.reading
    }

    /// The clock was set before the run could be moved.
    pub(super) fn is_outdated(&self) {
        lock(&self.inner).needs_plan = true;
    }

    pub(super) fn needs_plan(&self) -> bool {
        lock(&self.inner).needs_plan
    }
}

impl fmt::Debug for WallSchedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let progress = lock(&self.0.inner).state.progress;
        f.debug_struct("WallSchedule")
            .field("last", &progress.done())
            .field("planned", &progress.planned)
            .finish_non_exhaustive()
    }
}

/// The instant that a run of a job is for, from [`WallSchedule::scheduled`].
///
/// A run notes it in a store, so that the next start goes on from there: see [`WallSchedule::since`].
#[derive(Clone)]
pub struct Scheduled(Weak<Planned>);

impl Scheduled {
    /// The instant of the run that is going on, or else of the next one; `None` before the first is planned, and when the
    /// job is over.
    #[must_use]
    pub fn get(&self) -> Option<Timestamp> {
        lock(&self.0.upgrade()?.inner).state.progress.planned
    }
}

impl fmt::Debug for Scheduled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Scheduled").field(&self.get()).finish()
    }
}
