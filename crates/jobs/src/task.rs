//! The task of a job, and what it runs: a future, or those of a closure, one after the other.

use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::Arc;

use futures::FutureExt;
use futures::future::{AbortRegistration, Abortable};
use timingwheel::{Error, Sleep, TimingWheel};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::caught;
use crate::error::{JobError, Kind, Refused};
use crate::info::JobState;
use crate::jobs::Key;
use crate::record::{AnyJob, Code, First, Record, timer};
use crate::schedule::{Answer, Next, NextRun, PendingRun, Previous, Runs, Schedule, later};

/// A future of a job that has not run.
pub(crate) type Unrun = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The way to the task that awaits the output of a job, if there is a handle.
pub(crate) type Tell<T> = Option<oneshot::Sender<Result<T, JobError>>>;

/// What a run returns.
type Answered<W> = <<W as Work>::Run as Future>::Output;

/// The code of a job.
pub(crate) trait Work: Send + Sized + 'static {
    type Output: Send + 'static;
    /// The future or closure that the user has given.
    type Given;
    type Run: Future + Send;
    const REPEATS: bool;

    /// Learns what moves its runs.
    fn attach<J: AnyJob + 'static>(&mut self, _job: &Arc<J>) {}

    /// The next run, unless the schedule, which may have planned it, leaves it out.
    fn begin(&mut self, is_planned: bool) -> Option<Self::Run>;

    /// When the run that follows is due, by the answer of the one before if that was not left out.
    fn next(&mut self, answer: Option<Answered<Self>>, previous: Previous) -> Next;

    /// The output of a job that has no further run.
    fn output(&mut self) -> Option<Self::Output>;

    /// Gives back the code of a job that has not begun.
    fn given(self) -> Self::Given;
}

/// A future that runs once, and then its output.
pub(crate) struct Once<F: Future>(Option<F>, Option<F::Output>);

impl<F: Future> Once<F> {
    /// And its first timer.
    pub(crate) fn new(sleep: Sleep, future: F) -> (First, Self) {
        (Some((sleep, None)), Self(Some(future), None))
    }
}

impl<F: Future<Output: Send + 'static> + Send + 'static> Work for Once<F> {
    type Output = F::Output;
    type Given = F;
    type Run = F;
    const REPEATS: bool = false;

    fn begin(&mut self, _is_planned: bool) -> Option<F> {
        self.0.take()
    }

    fn next(&mut self, output: Option<F::Output>, _previous: Previous) -> Next {
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

impl<F: Runs, S: Schedule> Repeat<F, S> {
    /// And its first timer.
    pub(crate) fn new(wheel: &TimingWheel, mut schedule: S, make: F) -> (First, Self) {
        let first = schedule.next(Previous::at(wheel.current_time()));
        let first = first.map(|due| (timer(wheel, due, schedule.tolerance()), Some(due)));
        (first, Self { make, schedule, runs: 0 })
    }
}

impl<F: Runs, S: Schedule> Work for Repeat<F, S> {
    type Output = u64;
    type Given = F;
    type Run = F::Run;
    const REPEATS: bool = true;

    fn attach<J: AnyJob + 'static>(&mut self, job: &Arc<J>) {
        let job = Arc::downgrade(job);
        self.schedule.attach(PendingRun(job));
    }

    fn begin(&mut self, is_planned: bool) -> Option<F::Run> {
        (!is_planned || !self.schedule.leaves_out()).then(|| self.make.run())
    }

    fn next(&mut self, answer: Option<Answered<Self>>, previous: Previous) -> Next {
        self.runs += u64::from(answer.is_some());
        let answer = answer.map_or(NextRun::BySchedule, Answer::next_run);
        let due = match answer {
            NextRun::BySchedule => self.schedule.next(previous),
            NextRun::After(delay) => Some(later(previous.ended, delay)),
            NextRun::At(instant) => Some(instant),
            NextRun::Never => None,
        };
        Next { due, tolerance: self.schedule.tolerance(), is_users: answer != NextRun::BySchedule }
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
            let ended = Refused::by_wheel(self.record.wheel(), Error::shutdown());
            self.end(Err(JobError(Kind::CouldNotRun(ended))));
        }
    }
}

impl<K: Key, W: Work> Task<K, W> {
    pub(crate) async fn run(mut self, abort: AbortRegistration) {
        let started = Instant::now();
        let ended = match self.answer(abort).await {
            Ok(answer) => self.go_on(started, answer),
            Err(error) => Err(error),
        };
        self.end(ended);
    }

    /// Runs, unless the run is left out.
    async fn answer(&mut self, abort: AbortRegistration) -> Result<Option<Answered<W>>, JobError> {
        let is_planned = self.record.begins().ok_or(JobError(Kind::Cancelled))?;
        let Some((work, _)) = &mut self.code else { return Ok(None) };
        let Some(run) = caught(|| work.begin(is_planned))? else { return Ok(None) };
        let mut run = pin!(Some(Abortable::new(run, abort)));
        let polls = AssertUnwindSafe(run.as_mut().as_pin_mut().expect("it is dropped below"));
        let answered = polls.catch_unwind().await;
        // Here, and not while a panic unwinds: a second one would abort the process.
        let dropped = caught(|| run.set(None));
        let answer = answered.map_err(JobError::panicked)?;
        dropped.and(answer.map(Some).map_err(|_| JobError(Kind::Cancelled)))
    }

    /// The job waits again, if there is a next run.
    fn go_on(&mut self, started: Instant, answer: Option<Answered<W>>) -> Result<(), JobError> {
        let Some((work, _)) = &mut self.code else { return Ok(()) };
        let previous = self.record.previous(started);
        let next = caught(|| work.next(answer, previous))?;
        self.record.go_on(next, &mut self.code)
    }

    /// Ends the job, unless it waits again. Whoever is told finds the work dropped, and the record told.
    fn end(&mut self, ended: Result<(), JobError>) {
        let Some((mut work, tell)) = self.code.take() else { return };
        let result = ended.map(|()| work.output());
        _ = caught(|| drop(work));
        let error = result.as_ref().err();
        self.record.finish(error.map_or(JobState::Done, JobError::state), error.and_then(JobError::reason));
        if let (Some(tell), Some(result)) = (tell, result.transpose()) {
            _ = tell.send(result);
        }
    }
}
