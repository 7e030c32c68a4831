//! Why a job has no output, and why one was refused.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};
use std::{error, fmt, mem};

use timingwheel::{Error, TimingWheel};

use crate::info::JobState;
use crate::lock;

/// Why a job has no output: it was cancelled or aborted, it panicked, or it could not run.
///
/// If it could not run, its text, [`source`](error::Error::source) and [`reason`](Self::reason) say why.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use std::time::Duration;
/// use timingwheel::TimingWheel;
/// use timingwheel_jobs::{JobError, JobsExt};
///
/// let wheel = TimingWheel::new();
/// let job = wheel.run_after(Duration::from_secs(1), async { panic!("no milk") });
/// let error: JobError = job.await.unwrap_err();
/// assert_eq!(error.to_string(), "the job panicked: no milk");
/// assert_eq!(*error.into_panic().unwrap().downcast::<&str>().unwrap(), "no milk");
///
/// let full = TimingWheel::builder().name("rpc").max_pending(0).build().unwrap();
/// let error = full.run_after(Duration::from_secs(1), async {}).await.unwrap_err();
/// assert_eq!(error.to_string(), r#"the job could not run: the wheel "rpc" is full (max_pending = 0)"#);
/// # }
/// ```
pub struct JobError(pub(crate) Kind);

pub(crate) enum Kind {
    Cancelled,
    /// The lock makes a payload that can be sent one that can be shared, as errors are expected to be. It is held while the
    /// error's text is written.
    Panicked(Mutex<Payload>),
    /// Why, and that in one line if the reason's own text does not do.
    CouldNotRun(Error, Option<String>),
}

/// What a panic carried; `None` once it was given away.
///
/// It may panic again as it is dropped, where nobody expects that. So that panic ends here, and its payload, which may do so
/// too, is never dropped.
pub(crate) struct Payload(Option<Box<dyn Any + Send>>);

impl Drop for Payload {
    fn drop(&mut self) {
        if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(self.0.take()))) {
            mem::forget(again);
        }
    }
}

impl JobError {
    pub(crate) fn panicked(panic: Box<dyn Any + Send>) -> Self {
        Self(Kind::Panicked(Mutex::new(Payload(Some(panic)))))
    }

    pub(crate) fn could_not_run(wheel: &TimingWheel, reason: Error) -> Self {
        let full = wheel.max_pending().filter(|_| reason.is_at_capacity());
        let why = full.map(|max| {
            format!("the job could not run: the wheel {:?} is full (max_pending = {max})", wheel.name())
        });
        Self(Kind::CouldNotRun(reason, why))
    }

    /// The list of jobs has ended.
    pub(crate) fn jobs_shut_down() -> Self {
        let why = "the jobs were shut down, and take no more";
        Self(Kind::CouldNotRun(Error::shutdown(), Some(why.to_owned())))
    }

    pub(crate) const fn state(&self) -> JobState {
        match self.0 {
            Kind::Cancelled => JobState::Cancelled,
            Kind::Panicked(_) => JobState::Panicked,
            Kind::CouldNotRun(..) => JobState::CouldNotRun,
        }
    }

    /// Whether the job was cancelled or aborted.
    #[must_use]
    pub const fn is_cancelled(&self) -> bool {
        matches!(self.0, Kind::Cancelled)
    }

    /// Whether the job panicked.
    #[must_use]
    pub const fn is_panic(&self) -> bool {
        matches!(self.0, Kind::Panicked(_))
    }

    /// Why the job could not run, or not to its end: the wheel or its runtime has ended, or the wheel was full.
    #[must_use]
    pub const fn reason(&self) -> Option<Error> {
        match &self.0 {
            Kind::CouldNotRun(reason, _) => Some(*reason),
            Kind::Cancelled | Kind::Panicked(_) => None,
        }
    }

    /// The payload of the job's panic, for `std::panic::resume_unwind`.
    ///
    /// # Errors
    /// The error itself, if it is not that of a panic.
    pub fn into_panic(self) -> Result<Box<dyn Any + Send>, Self> {
        match self.0 {
            Kind::Panicked(panic) => Ok(lock(&panic).0.take().expect("only this takes it")),
            kind => Err(Self(kind)),
        }
    }
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Cancelled => f.write_str("the job was cancelled"),
            Kind::Panicked(panic) => {
                let panic = lock(panic);
                let panic = panic.0.as_ref().expect("only `into_panic` takes it");
                let text = panic.downcast_ref::<&str>().copied();
                match text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)) {
                    Some(text) => write!(f, "the job panicked: {text}"),
                    None => f.write_str("the job panicked"),
                }
            }
            Kind::CouldNotRun(_, Some(why)) => f.write_str(why),
            Kind::CouldNotRun(reason, None) => write!(f, "the job could not run: {reason}"),
        }
    }
}

impl fmt::Debug for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JobError({self})")
    }
}

impl error::Error for JobError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match &self.0 {
            Kind::CouldNotRun(reason, _) => Some(reason),
            Kind::Cancelled | Kind::Panicked(_) => None,
        }
    }
}

/// A job was refused. This error has what was to run, and from [`Jobs`](crate::Jobs) the key.
///
/// Its text is that of [`JobError`]. The error can be shared between threads, because what is to run can be sent. So `?`
/// turns it into a `Box<dyn Error + Send + Sync>`, or into a [`timingwheel::Error`], without what was to run.
pub struct TryRunError<F, K = ()> {
    refused: JobError,
    /// Nobody waits for the lock. It makes what can be sent something that can be shared.
    job: Mutex<(K, F)>,
}

impl<F, K> TryRunError<F, K> {
    pub(crate) const fn new(refused: JobError, key: K, job: F) -> Self {
        Self { refused, job: Mutex::new((key, job)) }
    }

    /// Why the job was refused. Jobs that were [shut down](crate::Jobs::shutdown) refuse as a wheel that has ended does.
    #[must_use]
    pub const fn error(&self) -> Error {
        self.refused.reason().expect("it could not run")
    }

    /// The future, or the closure that makes futures, as it was given.
    #[must_use]
    pub fn into_inner(self) -> F {
        self.into_parts().1
    }

    /// The key, and the future or closure.
    #[must_use]
    pub fn into_parts(self) -> (K, F) {
        self.job.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<F, K> fmt::Debug for TryRunError<F, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TryRunError").field("error", &self.refused).finish_non_exhaustive()
    }
}

impl<F, K> fmt::Display for TryRunError<F, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.refused.fmt(f)
    }
}

impl<F, K> error::Error for TryRunError<F, K> {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        self.refused.source()
    }
}

impl<F, K> From<TryRunError<F, K>> for Error {
    fn from(refused: TryRunError<F, K>) -> Self {
        refused.error()
    }
}
