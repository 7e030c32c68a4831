//! What a job does that runs again and again.

use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use tokio::time::Instant;

use super::{Next, SetBy, Step, Unrun, Work};
use crate::platform::catch_panic::contained;
use crate::platform::clock::Clock;
use crate::services::job::pending_run::PendingRun;
use crate::services::job::permit_state::PermitOfRepeating;
use crate::services::job::schedule::{Previous, Schedule};
use crate::timers::interval::missed_after;
use crate::timers::tolerance::Slack;
use crate::wheel::{Nanos, Resolution};

/// A job that runs by a schedule.
pub(in crate::services::job) struct Repeat<F> {
    schedule: Box<dyn Schedule>,
    pub(in crate::services::job) make: F,
    /// When the next run is due, or the one that is going on was.
    pub(in crate::services::job) due: Instant,
    set_by: SetBy,
    /// Until when the job waits for that run: a little longer, if it may be late.
    waits_until: Instant,
    /// How many runs have ended.
    runs: u64,
    pub(in crate::services::job) slack: Slack,
    clock: Clock,
    resolution: Resolution,
}

/// Another schedule, and when the job is due by it.
pub(in crate::services::job) struct Change {
    schedule: Box<dyn Schedule>,
    slack: Slack,
    first: Option<Instant>,
    first_set_by: SetBy,
}

/// How late the next run of this schedule may be.
fn slack_of(schedule: &dyn Schedule, resolution: Resolution) -> Slack {
    schedule.tolerance().map_or(Slack::None, |tolerance| Slack::new(tolerance, resolution))
}

impl<F> Repeat<F> {
    /// What a job does by `schedule`, from now on. Gives `make` back if there is not even a first run.
    pub(in crate::services::job) fn new(
        mut schedule: Box<dyn Schedule>,
        make: F,
        clock: Clock,
        resolution: Resolution,
    ) -> Result<Self, F> {
        let Some(due) = schedule.next(Previous::at(clock.now_as_instant())) else { return Err(make) };
        let slack = slack_of(&*schedule, resolution);
        let set_by = SetBy::Schedule;
        Ok(Self { schedule, make, due, set_by, waits_until: due, runs: 0, slack, clock, resolution })
    }

    /// When the next run is due, which is at `instant`, or how many there were.
    fn due_at(&mut self, instant: Option<Instant>, by: SetBy) -> Result<Nanos, u64> {
        let due = instant.ok_or(self.runs)?;
        (self.due, self.waits_until, self.set_by) = (due, due, by);
        Ok(self.clock.nanos(due))
    }
}

impl<F, R> Repeat<F>
where
    F: FnMut() -> R + Send + 'static,
    R: Future<Output = ()> + Send + 'static,
{
    /// After a run that began at `started`.
    fn step(mut self, started: Instant) -> Step<Self> {
        self.runs += 1;
        let late = started.saturating_duration_since(self.waits_until);
        let missed = late > missed_after(self.resolution.tick());
        let next = self.schedule.next(Previous { due: self.due, started, ended: Instant::now(), missed });
        self.slack = slack_of(&*self.schedule, self.resolution);
        let next = self.due_at(next, SetBy::Schedule);
        Step::Again(self, next)
    }
}

impl<F, R> Work for Repeat<F>
where
    F: FnMut() -> R + Send + 'static,
    R: Future<Output = ()> + Send + 'static,
{
    const REPEATS: bool = true;

    type KeptPermit = PermitOfRepeating;
    type Output = u64;
    type Change = Change;
    type Run = OneRun<F, R>;

    fn run(self) -> OneRun<F, R> {
        OneRun { future: None, job: Some((self, None)) }
    }

    fn has_begun(run: &OneRun<F, R>) -> bool {
        run.job.as_ref().is_none_or(|(_, started)| started.is_some())
    }

    fn give_back(self) -> Unrun<u64> {
        let Self { mut make, runs, schedule, .. } = self;
        contained(move || drop(schedule));
        Box::pin(async move {
            make().await;
            runs + 1
        })
    }

    fn slack(&self) -> Option<Slack> {
        Some(self.slack)
    }

    fn change(&mut self, change: &mut Change) -> Next<Self> {
        mem::swap(&mut self.schedule, &mut change.schedule);
        self.slack = change.slack;
        self.due_at(change.first, change.first_set_by)
    }

    fn change_to(
        mut schedule: Box<dyn Schedule>,
        now: Instant,
        resolution: Resolution,
        run: impl FnOnce() -> PendingRun,
    ) -> Option<Change> {
        let first = schedule.next(Previous::at(now));
        let slack = slack_of(&*schedule, resolution);
        schedule.attach(run());
        Some(Change { schedule, slack, first, first_set_by: SetBy::Schedule })
    }

    fn change_first(change: &mut Change, first: Instant) {
        (change.first, change.first_set_by) = (Some(first), SetBy::User);
    }

    fn attach(&mut self, run: impl FnOnce() -> PendingRun) {
        self.schedule.attach(run());
    }

    fn note_due(&mut self, due: Nanos, by: SetBy) {
        self.due = self.clock.instant(due);
        self.waits_until = self.due;
        self.set_by = by;
    }

    fn set_by(&self) -> SetBy {
        self.set_by
    }

    fn note_wait(&mut self, until: Nanos) {
        self.waits_until = self.clock.instant(until);
    }
}

pin_project! {
    /// One run. It makes its future when it is first polled.
    pub(in crate::services::job) struct OneRun<F, R> {
        #[pin]
        future: Option<R>,
        // And when the run began.
        job: Option<(Repeat<F>, Option<Instant>)>,
    }
}

impl<F, R> Future for OneRun<F, R>
where
    F: FnMut() -> R + Send + 'static,
    R: Future<Output = ()> + Send + 'static,
{
    type Output = Step<Repeat<F>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let (job, started) = this.job.as_mut().expect("not polled after it was ready");
        let began = *started.get_or_insert_with(Instant::now);
        if this.future.is_none() {
            this.future.set(Some((job.make)()));
        }
        if let Some(future) = this.future.as_mut().as_pin_mut() {
            ready!(future.poll(cx));
        }
        // What it held is free before the next run is due.
        this.future.set(None);
        let (job, _) = this.job.take().expect("it was there");
        Poll::Ready(job.step(began))
    }
}
