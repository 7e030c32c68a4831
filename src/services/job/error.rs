//! Why a job has no output, and why one was refused.

use std::any::Any;
use std::sync::{Mutex, PoisonError};
use std::{error, fmt};

use super::info::JobState;
use crate::error::{Error, GivenBack};

/// Why a job has no output: it was cancelled or aborted, it panicked, or it could not run.
///
/// If it could not run, [`source`](error::Error::source) and [`reason`](Self::reason) say why.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use std::time::Duration;
/// use timingwheel::TimingWheel;
///
/// let wheel = TimingWheel::new();
/// let job = wheel.run_after(Duration::from_secs(1), async { panic!("no milk") });
/// let error: timingwheel::job::JobError = job.await.unwrap_err();
/// assert_eq!(error.to_string(), "the job panicked: no milk");
/// assert_eq!(*error.into_panic().unwrap().downcast::<&str>().unwrap(), "no milk");
/// # }
/// ```
pub struct JobError {
    kind: Kind,
}

enum Kind {
    Cancelled,
    /// Nobody waits for the lock. It makes a payload that can be sent one that can be shared, as errors are expected to
    /// be.
    Panicked(Mutex<Box<dyn Any + Send>>),
    CouldNotRun(Error),
}

impl JobError {
    pub(super) const fn cancelled() -> Self {
        Self { kind: Kind::Cancelled }
    }

    pub(super) const fn panicked(panic: Box<dyn Any + Send>) -> Self {
        Self { kind: Kind::Panicked(Mutex::new(panic)) }
    }

    pub(super) const fn because(reason: Error) -> Self {
        Self { kind: Kind::CouldNotRun(reason) }
    }

    pub(super) const fn state(&self) -> JobState {
        match self.kind {
            Kind::Cancelled => JobState::Cancelled,
            Kind::Panicked(_) => JobState::Panicked,
            Kind::CouldNotRun(_) => JobState::CouldNotRun,
        }
    }

    /// Whether the job was cancelled or aborted.
    #[must_use]
    pub const fn is_cancelled(&self) -> bool {
        matches!(self.kind, Kind::Cancelled)
    }

    /// Whether the job panicked.
    #[must_use]
    pub const fn is_panic(&self) -> bool {
        matches!(self.kind, Kind::Panicked(_))
    }

    /// Why the job could not run, or not to its end: the wheel or its runtime has ended, or the wheel was full.
    #[must_use]
    pub const fn reason(&self) -> Option<Error> {
        match self.kind {
            Kind::CouldNotRun(reason) => Some(reason),
            Kind::Cancelled | Kind::Panicked(_) => None,
        }
    }

    /// What the job's panic carried, for `std::panic::resume_unwind`.
    ///
    /// # Errors
    /// The error itself, if it is not that of a panic.
    pub fn into_panic(self) -> Result<Box<dyn Any + Send>, Self> {
        match self.kind {
            Kind::Panicked(panic) => Ok(panic.into_inner().unwrap_or_else(PoisonError::into_inner)),
            kind => Err(Self { kind }),
        }
    }
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Cancelled => f.write_str("the job was cancelled"),
            Kind::Panicked(panic) => {
                let panic = panic.lock().unwrap_or_else(PoisonError::into_inner);
                let text = panic.downcast_ref::<&str>().copied();
                match text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)) {
                    Some(text) => write!(f, "the job panicked: {text}"),
                    None => f.write_str("the job panicked"),
                }
            }
            Kind::CouldNotRun(_) => f.write_str("the job could not run"),
        }
    }
}

impl fmt::Debug for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::CouldNotRun(reason) => write!(f, "JobError({self}: {reason})"),
            _ => write!(f, "JobError({self})"),
        }
    }
}

impl error::Error for JobError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match &self.kind {
            Kind::CouldNotRun(reason) => Some(reason),
            Kind::Cancelled | Kind::Panicked(_) => None,
        }
    }
}

/// A job was refused. This error has what was to run.
///
/// The error can be shared between threads, because what is to run can be sent. So `?` turns it into a
/// `Box<dyn Error + Send + Sync>`.
pub struct TryRunError<F> {
    error: Error,
    job: GivenBack<F>,
}

impl<F> TryRunError<F> {
    pub(super) const fn new(error: Error, job: F) -> Self {
        Self { error, job: GivenBack::new(job) }
    }

    /// Why the job was refused.
    #[must_use]
    pub const fn error(&self) -> Error {
        self.error
    }

    /// The future, or the closure that makes futures, as it was given.
    #[must_use]
    pub fn into_inner(self) -> F {
        self.job.into_inner()
    }
}

impl<F> fmt::Debug for TryRunError<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TryRunError").field("error", &self.error).finish_non_exhaustive()
    }
}

impl<F> fmt::Display for TryRunError<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<F> error::Error for TryRunError<F> {}

/// Without what was to run, for `?` in functions that return an [`Error`].
impl<F> From<TryRunError<F>> for Error {
    fn from(refused: TryRunError<F>) -> Self {
        refused.error
    }
}
