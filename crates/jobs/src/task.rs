//! The task of a job, and what it runs: a future, or those of a closure, one after the other.

use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::{Arc, Weak};

use futures::FutureExt;
use futures::future::{AbortRegistration, Abortable};
use timingwheel::{Error, Sleep, TimingWheel};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::caught;
use crate::error::{JobError, Kind};
use crate::jobs::Key;
use crate::record::{AnyJob, Code, Record, timer};
use crate::schedule::{LastRun, MakeRun, Next, NextRun, PendingRun, Schedule, later};

/// A future of a job that has not run.
pub(crate) type Unrun = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The way to the task that awaits the output of a job, if there is a handle.
pub(crate) type Tell<T> = Option<oneshot::Sender<Result<T, JobError>>>;

/// The first timer of a job, and when the run is due; `None` if it has no run at all.
pub(crate) type First = Option<(Sleep, Instant)>;

/// What a run returns.
type Answer<W> = <<W as Work>::Run as Future>::Output;

/// The code of a job.
pub(crate) trait Work: Send + Sized + 'static {
    type Output: Send + 'static;
    /// The future or closure that the user has given.
    type Given;
    type Run: Future + Send;
    const REPEATS: bool;

    /// Learns what moves its runs.
    fn attach<J: AnyJob + 'static>(&mut self, _job: &Weak<J>) {}

    /// The next run, unless the schedule leaves it out, if it is asked.
    fn begin(&mut self, asks_schedule: bool) -> Option<Self::Run>;

    /// When the run that follows is due, by the answer of the last one if that was not left out.
    fn next(&mut self, answer: Option<Answer<Self>>, last: LastRun) -> Next;

    /// The output of a job that has no further run.
    fn output(&mut self) -> Option<Self::Output>;

    /// Gives back the code of a job that has not begun.
    fn given(self) -> Self::Given;
}

/// A future that runs once, and then its output.
pub(crate) struct Once<F: Future>(Option<F>, Option<F::Output>);

impl<F: Future> Once<F> {
    /// And its timer.
    pub(crate) fn new(sleep: Sleep, future: F) -> (First, Self) {
        let due = sleep.deadline();
        (Some((sleep, due)), Self(Some(future), None))
    }
}

impl<F: Future<Output: Send + 'static> + Send + 'static> Work for Once<F> {
    type Output = F::Output;
    type Given = F;
    type Run = F;
    const REPEATS: bool = false;

    fn begin(&mut self, _asks_schedule: bool) -> Option<F> {
        self.0.take()
    }

    fn next(&mut self, output: Option<F::Output>, _last: LastRun) -> Next {
        self.1 = output;
        Next::default()
    }

    fn output(&mut self) -> Option<F::Output> {
        self.1.take()
    }

    fn given(self) -> F {
        self.0.expect("the job has not begun")
    }
}

/// A closure whose futures run one after the other, by a schedule, and how many have.
pub(crate) struct Repeat<F, S> {
    make: F,
    schedule: S,
    runs: u64,
}

impl<F: MakeRun, S: Schedule> Repeat<F, S> {
    /// And its first timer.
    pub(crate) fn new(wheel: &TimingWheel, mut schedule: S, make: F) -> (First, Self) {
        let first = schedule.next(LastRun::at(wheel.current_time()));
        let first = first.map(|due| (timer(wheel, due, schedule.tolerance()), due));
        (first, Self { make, schedule, runs: 0 })
    }
}

impl<F: MakeRun, S: Schedule> Work for Repeat<F, S> {
    type Output = u64;
    type Given = F;
    type Run = F::Run;
    const REPEATS: bool = true;

    fn attach<J: AnyJob + 'static>(&mut self, job: &Weak<J>) {
        self.schedule.attach(PendingRun(job.clone()));
    }

    fn begin(&mut self, asks_schedule: bool) -> Option<F::Run> {
        (!asks_schedule || !self.schedule.leaves_out()).then(|| self.make.make_run())
    }

    fn next(&mut self, answer: Option<Answer<Self>>, last: LastRun) -> Next {
        self.runs += u64::from(answer.is_some());
        let answer = answer.map_or(NextRun::BySchedule, Into::into);
        let due = match answer {
            NextRun::BySchedule => self.schedule.next(last),
            NextRun::After(delay) => Some(later(last.ended, delay)),
            NextRun::At(instant) => Some(instant),
            NextRun::Never => None,
        };
        let is_users = answer != NextRun::BySchedule;
        let due = due.filter(|due| !is_users || self.schedule.admits(*due));
        Next { due, tolerance: self.schedule.tolerance(), is_users }
    }

    fn output(&mut self) -> Option<u64> {
        Some(self.runs)
    }

    fn given(self) -> F {
        self.make
    }
}

/// Code of a user's that is dropped without a panic.
struct Kept<T>(Option<T>);

impl<T> Drop for Kept<T> {
    fn drop(&mut self) {
        _ = caught(|| self.0 = None);
    }
}

/// The next run, for a user who takes the work back.
pub(crate) fn unrun<W: Work>(work: W) -> Unrun {
    let mut work = Kept(Some(work));
    Box::pin(async move {
        if let Some(run) = work.0.as_mut().and_then(|work| work.begin(false)) {
            run.await;
        }
    })
}

/// A run of a job, in a task that may be dropped before its end, as where the runtime is shut down.
pub(crate) struct Task<K: Key, W: Work> {
    pub(crate) record: Arc<Record<K, W>>,
    /// Until the job waits again, or is over.
    pub(crate) code: Option<Code<W>>,
}

impl<K: Key, W: Work> Drop for Task<K, W> {
    fn drop(&mut self) {
        if self.code.is_some() {
            self.end(Err(JobError::could_not_run(&self.record.wheel, Error::shutdown())));
        }
    }
}

impl<K: Key, W: Work> Task<K, W> {
    pub(crate) async fn run(mut self, abort: AbortRegistration) {
        let started = Instant::now();
        let ended = match self.answer(abort).await {
            // A panic between two runs ends the job too.
            Ok(answer) => caught(|| self.wait_again(started, answer)).and_then(|ended| ended),
            Err(error) => Err(error),
        };
        self.end(ended);
    }

    /// Runs, unless the run is left out.
    async fn answer(&mut self, abort: AbortRegistration) -> Result<Option<Answer<W>>, JobError> {
        let asks_schedule = self.record.begins().ok_or(JobError(Kind::Cancelled))?;
        let Some((work, _)) = &mut self.code else { return Ok(None) };
        let Some(run) = caught(|| work.begin(asks_schedule))? else { return Ok(None) };
        let mut run = pin!(Some(Abortable::new(run, abort)));
        let polls = AssertUnwindSafe(run.as_mut().as_pin_mut().expect("it is dropped below"));
        let answered = polls.catch_unwind().await;
        // Here, and not while a panic unwinds: a second one would abort the process.
        let dropped = caught(|| run.set(None));
        let answer = answered.map_err(JobError::panicked)?;
        dropped.and(answer.map(Some).map_err(|_| JobError(Kind::Cancelled)))
    }

    /// The job waits again, if there is a next run.
    fn wait_again(&mut self, started: Instant, answer: Option<Answer<W>>) -> Result<(), JobError> {
        let Some((work, _)) = &mut self.code else { return Ok(()) };
        let next = work.next(answer, self.record.last_run(started));
        self.record.wait_again(next, &mut self.code)
    }

    /// Ends the job, unless it waits again.
    fn end(&mut self, ended: Result<(), JobError>) {
        if let Some(code) = self.code.take() {
            // Nobody may know of code that panics as it is dropped, or wait for such an output.
            _ = caught(|| self.record.finish(code, ended));
        }
    }
}
