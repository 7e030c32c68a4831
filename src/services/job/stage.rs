//! How far a job has come.

use std::mem;
use std::task::Waker;

use super::error::JobError;
use super::info::{JobInfo, JobState};
use super::waiter::Waiter;
use super::work::Work;
use crate::error::Error;
use crate::platform::catch_panic::contained;
use crate::platform::clock::Clock;
use crate::wheel::{Key, Nanos};

/// What a record's lock guards.
pub(super) struct Inner<W: Work, T> {
    pub(super) stage: Stage<W>,
    pub(super) waiter: T,
    pub(super) permit: W::KeptPermit,
}

/// | stage | entry in the wheel | next |
/// |---|---|---|
/// | `New` | none | armed: `Pending`, or `Running` if it is due |
/// | `Pending` | until the driver hands it out | woken: `Running`, or `CouldNotRun` if the wheel has ended; cancelled: `Over` or `Held` |
/// | `Running` | none | by its task: `Over`, `CouldNotRun`, or `Pending` until it runs again |
/// | `Held` | none | `Told`, once its work is given back or dropped |
/// | `Over`, `CouldNotRun` | none | `Told`, once the handle has had the result |
pub(super) enum Stage<W: Work> {
    /// Before it is armed. Nobody knows of it but its schedule.
    New,
    Pending {
        work: W,
        due: Nanos,
        key: Key,
    },
    Running {
        order: Order<W>,
        /// Of the job's task, for an abort.
        task: Option<Waker>,
    },
    /// Stopped before it ran, for whoever asks for its work.
    Held(W),
    Over(Result<W::Output, JobError>),
    /// With the time at which it was to run, if it waited for that.
    CouldNotRun(Error, Option<Nanos>),
    Told(JobState),
}

/// What was asked of a job during a run, for when the run is over.
pub(super) enum Order<W: Work> {
    None,
    /// This run is the last.
    Stop,
    /// This run ends where it next waits, and is the last.
    Abort,
    /// The next run is due then, whatever the schedule says.
    Move(Nanos),
    Change(W::Change),
}

impl<W: Work> Stage<W> {
    /// As it begins.
    pub(super) const fn running() -> Self {
        Self::Running { order: Order::None, task: None }
    }
}

impl<W: Work, T: Waiter> Inner<W, T> {
    pub(super) fn new(stage: Stage<W>) -> Self {
        Self { stage, waiter: T::default(), permit: W::KeptPermit::default() }
    }

    pub(super) fn state(&self) -> JobState {
        match &self.stage {
            Stage::New | Stage::Pending { .. } => JobState::Pending,
            Stage::Running { .. } => JobState::Running,
            Stage::Held(_) => JobState::Cancelled,
            Stage::Over(Ok(_)) => JobState::Done,
            Stage::Over(Err(error)) => error.state(),
            Stage::CouldNotRun(..) => JobState::CouldNotRun,
            Stage::Told(state) => *state,
        }
    }

    pub(super) fn info(&self, clock: &Clock) -> JobInfo {
        let due = match self.stage {
            Stage::Pending { due, .. } | Stage::CouldNotRun(_, Some(due)) => Some(clock.instant(due)),
            _ => None,
        };
        JobInfo { state: self.state(), due }
    }

    /// Ends the job, which was to run at `due`, if that is known. What is returned is dropped outside the lock.
    pub(super) fn end(&mut self, result: Result<W::Output, JobError>, due: Option<Nanos>) -> Ended<W, T> {
        let over = match result.as_ref().err().and_then(JobError::reason) {
            Some(reason) => Stage::CouldNotRun(reason, due),
            None => Stage::Over(result),
        };
        let stage = mem::replace(&mut self.stage, over);
        Ended { told: Telling { waiter: mem::take(&mut self.waiter), state: self.state() }, stage }
    }
}

/// What a job that is over leaves: whoever waits is told when this is dropped, and then the stage before is.
pub(super) struct Ended<W: Work, T: Waiter> {
    pub(super) told: Telling<T>,
    pub(super) stage: Stage<W>,
}

pub(super) struct Telling<T: Waiter> {
    waiter: T,
    state: JobState,
}

impl<T: Waiter> Drop for Telling<T> {
    fn drop(&mut self) {
        let waiter = mem::take(&mut self.waiter);
        contained(|| waiter.tell(self.state));
    }
}
