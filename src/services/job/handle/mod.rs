//! The handles of jobs, and what they need of a job, whatever it runs.

mod job;
mod repeating;

use std::sync::Arc;
use std::task::{Context, Poll};

pub use job::Job;
pub use repeating::Repeating;

use super::error::JobError;
use super::info::JobInfo;
use super::schedule::Schedule;
use super::when::When;
use super::work::Unrun;
use crate::platform::clock::Clock;
use crate::timers::tolerance::Slack;
use crate::wheel::Resolution;

/// What a handle does with its job.
pub(super) trait Handled<T>: Send + Sync {
    fn info(&self) -> JobInfo;
    fn clock(&self) -> &Clock;
    fn resolution(&self) -> Resolution;
    /// Moves a job's next run, and returns whether it is due then.
    fn reset(self: Arc<Self>, when: When) -> bool;
    /// Lets a pending job be late.
    fn let_be_late(self: Arc<Self>, slack: Slack);
    /// Cancels a pending job. No run comes after one that is going on.
    fn cancel(&self) -> Found;
    /// As `cancel`, and drops the future of a run that is going on.
    fn abort(&self) -> Found;
    /// Cancels a pending job, and gives back what it would have run.
    fn take(&self) -> Option<Unrun<T>>;
    fn poll_result(&self, cx: &mut Context<'_>) -> Poll<Result<T, JobError>>;
    /// Drops the waker of the task that awaited the result.
    fn forget_waiter(&self);
}

/// What the handle of a job that repeats does beside that.
pub(super) trait Scheduled: Handled<u64> {
    fn set_schedule(self: Arc<Self>, schedule: Box<dyn Schedule>) -> bool;
}

/// How somebody who ends a job found it.
pub(super) struct Found {
    pub(super) info: JobInfo,
    /// Whether this has made a difference.
    pub(super) is_changed: bool,
}
