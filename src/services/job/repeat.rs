//! What a job does that runs again and again.

use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::time::Instant;

use super::pending_run::PendingRun;
use super::schedule::{Previous, Schedule};
use super::work::{Next, Step, Work};
use crate::platform::clock::Clock;
use crate::wheel::Nanos;

/// A job that runs by a schedule.
pub(super) struct Repeat<F> {
    pub(super) schedule: Box<dyn Schedule>,
    pub(super) make: F,
    /// When the next run is due, or the one that is going on was.
    pub(super) due: Instant,
    /// How many have ended.
    pub(super) runs: u64,
    /// A run that begins so late was missed.
    pub(super) missed_after: Duration,
    pub(super) clock: Clock,
}

/// Another schedule, and when the job is due by it.
pub(super) struct Change {
    schedule: Box<dyn Schedule>,
    first: Option<Instant>,
}

impl<F, R> Repeat<F>
where
    F: FnMut() -> R + Send + 'static,
    R: Future<Output = ()> + Send + 'static,
{
    /// When the next run is due, which is at `instant`, or how many there were.
    fn due_at(&mut self, instant: Option<Instant>) -> Next<Self> {
        let due = instant.ok_or(self.runs)?;
        self.due = due;
        Ok(self.clock.nanos(due))
    }

    /// After a run that began at `started`.
    fn step(mut self, started: Instant) -> Step<Self> {
        self.runs += 1;
        let due = self.due;
        let missed = started.saturating_duration_since(due) > self.missed_after;
        let next = self.schedule.next(Previous { due, started, ended: Instant::now(), missed });
        let next = self.due_at(next);
        Step::Again(self, next)
    }
}

impl<F, R> Work for Repeat<F>
where
    F: FnMut() -> R + Send + 'static,
    R: Future<Output = ()> + Send + 'static,
{
    type Place = bool;
    type Output = u64;
    type Change = Change;
    type Run = Turn<F, R>;

    fn run(self) -> Turn<F, R> {
        Turn { future: None, job: Some((self, None)) }
    }

    fn change(&mut self, change: &mut Change) -> Next<Self> {
        mem::swap(&mut self.schedule, &mut change.schedule);
        self.due_at(change.first)
    }

    fn change_to(
        mut schedule: Box<dyn Schedule>,
        now: Instant,
        run: impl FnOnce() -> PendingRun,
    ) -> Option<Change> {
        let first = schedule.next(Previous::at(now));
        schedule.attach(run());
        Some(Change { schedule, first })
    }

    fn attach(&mut self, run: impl FnOnce() -> PendingRun) {
        self.schedule.attach(run());
    }

    fn note_due(&mut self, due: Nanos) {
        self.due = self.clock.instant(due);
    }
}

pin_project! {
    /// One run. It makes its future when it is first polled.
    pub(super) struct Turn<F, R> {
        #[pin]
        future: Option<R>,
        // And when the run began.
        job: Option<(Repeat<F>, Option<Instant>)>,
    }
}

impl<F, R> Future for Turn<F, R>
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
