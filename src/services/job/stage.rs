//! How far a job has come.

use std::mem;
use std::task::Waker;

use super::error::JobError;
use super::state::{JobInfo, JobState};
use super::work::Work;
use crate::error::Error;
use crate::platform::clock::Clock;
use crate::platform::contain::contained;
use crate::wheel::{Key, Nanos};

/// What the lock guards.
pub(super) struct Inner<W: Work> {
    pub(super) stage: Stage<W>,
    /// Of whoever awaits the handle.
    pub(super) waiter: Option<Waker>,
    pub(super) place: W::Place,
}

/// | stage | entry in the wheel | next |
/// |---|---|---|
/// | `Pending` | until the driver hands it out | woken: `Running`, or `CouldNotRun` if the wheel has ended; cancelled: `Over` |
/// | `Running` | none | by its task: `Over`, `CouldNotRun`, or `Pending` until it runs again |
/// | `Over`, `CouldNotRun` | none | `Told`, once the handle has had the result |
pub(super) enum Stage<W: Work> {
    Pending {
        work: W,
        due: Nanos,
        key: Key,
    },
    Running(Order<W>),
    Over(Result<W::Output, JobError>),
    /// And when it was to run, if it waited for that.
    CouldNotRun(Error, Option<Nanos>),
    Told(JobState),
}

/// What was asked of a job while it runs, for when the run is over.
pub(super) enum Order<W: Work> {
    None,
    Stop,
    Change(W::Change),
}

impl<W: Work> Inner<W> {
    pub(super) fn new(stage: Stage<W>) -> Self {
        Self { stage, waiter: None, place: W::Place::default() }
    }

    pub(super) fn state(&self) -> JobState {
        match &self.stage {
            Stage::Pending { .. } => JobState::Pending,
            Stage::Running(_) => JobState::Running,
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
    pub(super) fn end(&mut self, result: Result<W::Output, JobError>, due: Option<Nanos>) -> Ended<W> {
        let over = match result.as_ref().err().and_then(JobError::reason) {
            Some(reason) => Stage::CouldNotRun(reason, due),
            None => Stage::Over(result),
        };
        (Waiter(self.waiter.take()), mem::replace(&mut self.stage, over))
    }
}

/// What a job that is over leaves to be woken and dropped.
pub(super) type Ended<W> = (Waiter, Stage<W>);

/// Who waits for a job that is over: woken when this is dropped.
pub(super) struct Waiter(Option<Waker>);

impl Drop for Waiter {
    fn drop(&mut self) {
        if let Some(waiter) = self.0.take() {
            contained(|| waiter.wake());
        }
    }
}
