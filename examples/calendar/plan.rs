//! A job that runs by the clock on the wall: a [`Schedule`] that looks at it again and again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use timingwheel::Error;
use timingwheel::job::{JobInfo, Jobs, Previous, Schedule};
use tokio::time::Instant;

use crate::rule::{Occasion, Rule};

/// A clock that was set back by more than this was wrong before, and what it made run is due again. After less, nothing
/// runs twice. The limit is that of cron.
const CORRECTION: SignedDuration = SignedDuration::from_hours(3);

/// The time of day.
///
/// Here it is counted on tokio's clock from where it was set, so that a year passes at once when that clock is paused,
/// and it can be set, as people and programs set a machine's clock. In production it is [`Timestamp::now`], and no
/// more.
#[derive(Clone)]
pub(crate) struct WallClock(Arc<Mutex<(Timestamp, Instant)>>);

impl WallClock {
    pub(crate) fn showing(time: Timestamp) -> Self {
        Self(Arc::new(Mutex::new((time, Instant::now()))))
    }

    pub(crate) fn now(&self) -> Timestamp {
        let (time, since) = *lock(&self.0);
        time + since.elapsed()
    }

    pub(crate) fn set(&self, time: Timestamp) {
        *lock(&self.0) = (time, Instant::now());
    }
}

/// When a job runs.
pub(crate) struct Plan {
    rule: Rule,
    zone: TimeZone,
    clock: WallClock,
    /// The longest time for which nobody looks at the clock.
    look_every: Duration,
    state: Mutex<State>,
}

struct State {
    /// What the clock showed when it was last looked at.
    seen: Timestamp,
    next: Option<Occasion>,
}

impl Plan {
    pub(crate) fn new(rule: Rule, zone: TimeZone, clock: WallClock, look_every: Duration) -> Self {
        let seen = clock.now();
        let next = rule.after(seen, &zone);
        Self { rule, zone, clock, look_every, state: Mutex::new(State { seen, next }) }
    }

    /// Looks at the clock: what is due by now, if anything is. Of all that a clock that was set has left out, that is
    /// one run.
    fn look(&self) -> Option<Occasion> {
        let now = self.clock.now();
        let mut state = lock(&self.state);
        let due = state.next.filter(|next| next.at <= now);
        if due.is_some() || state.seen.duration_since(now) > CORRECTION {
            state.next = self.rule.after(now, &self.zone);
        }
        state.seen = now;
        due
    }

    /// How long to wait until the clock is to be looked at again.
    fn wait(&self) -> Option<Duration> {
        let next = lock(&self.state).next?;
        // Nothing if it is overdue.
        let until = Duration::try_from(next.at.duration_since(self.clock.now())).unwrap_or_default();
        Some(until.min(self.look_every))
    }

    /// Runs what `work` makes, by its key, whenever this plan says. Tells what it replaced.
    pub(crate) fn run<F, R>(
        self,
        jobs: &Jobs<&'static str>,
        key: &'static str,
        work: F,
    ) -> Result<Option<JobInfo>, Error>
    where
        F: Fn(Occasion) -> R + Send + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        let plan = Arc::new(self);
        let look = {
            let plan = plan.clone();
            move || {
                let run = plan.look().map(&work);
                async move {
                    if let Some(run) = run {
                        run.await;
                    }
                }
            }
        };
        jobs.run_by(key, Looks(plan), look).map_err(|refused| refused.error())
    }
}

/// The wheel knows nothing of a clock that is set, and does not count the time for which a machine is suspended. So it
/// is never asked to wait for long, and each time is told anew for how long.
struct Looks(Arc<Plan>);

impl Schedule for Looks {
    fn next(&mut self, previous: Previous) -> Option<Instant> {
        Some(previous.ended + self.0.wait()?)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
