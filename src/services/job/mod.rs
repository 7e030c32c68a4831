//! Jobs: code that runs later, in a task of its own.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! use std::time::Duration;
//! use timingwheel::TimingWheel;
//!
//! let wheel = TimingWheel::new();
//! let reminder = wheel.run_after(Duration::from_secs(60), async { "remember the milk" });
//! let farewell = wheel.run_after(Duration::from_secs(90), async { "bye" });
//!
//! assert!(farewell.cancel(), "it has not begun");
//! assert_eq!(reminder.await.unwrap(), "remember the milk");
//! # }
//! ```
//!
//! Until it is due a job is an entry in the wheel and a piece of memory that holds its future: no task. When it is due
//! the driver spawns the future as a task on the wheel's runtime, wherever the job was made. So no code of a job runs
//! on the driver, and a job that is slow or panics delays and loses no other.
//!
//! # Again and again
//!
//! [`TimingWheel::run_every`] and [`TimingWheel::run_by`] run what a closure makes by a [`Schedule`], which says from
//! each run when the next is due: at a [`FixedRate`], after a [`FixedDelay`], or as code of your own says. There is one
//! run of a job at a time: a run that takes longer than the period puts the next off to its end. What becomes of the
//! runs that were missed by then is the schedule's to say; the fixed rate does as [`Interval`](crate::Interval)s do,
//! with tokio's [`MissedTickBehavior`](tokio::time::MissedTickBehavior).
//!
//! # By keys
//!
//! [`Jobs`] address jobs by keys of yours: to replace, remove, move, ask for, list, count and stop them.
//!
//! # Its end
//!
//! | what happens | the job | its handle |
//! |---|---|---|
//! | the handle is dropped | goes on | is gone, unless it was to [cancel on drop](Job::cancel_on_drop) |
//! | [`Job::cancel`] while the job is pending | is dropped at once, memory too | [`JobError::is_cancelled`] |
//! | [`Job::cancel`] later | goes on | has the job's result |
//! | [`Repeating::cancel`] during a run | goes on to the end of the run | [`JobError::is_cancelled`] |
//! | the schedule has no further run | is over | has the number of runs |
//! | the job panics | is over; the panic hook has reported it, [`Stats::jobs_panicked`](crate::Stats::jobs_panicked) counts it | [`JobError::is_panic`], with what the panic carried |
//! | the wheel's last handle is dropped | goes on, and the wheel with it | has the job's result |
//! | the wheel is [shut down](crate::TimingWheel::shutdown) | is dropped if it is pending; goes on to the end of its run otherwise | [`JobError::reason`], or the job's result |
//! | the runtime is shut down | is dropped, pending or running | [`JobError::reason`] |

// | file | what it has |
// |---|---|
// | `when` | when a job is due, beside the time at which that was asked |
// | `work` | what a job does, as a trait; that of one that runs once |
// | `repeat` | what a job does that runs again and again |
// | `place` | whether a place in a bound stays with a job |
// | `stage` | how far a job has come: what its lock guards |
// | `record` | what the wheel, the task and the handle share, round a stage |
// | `run` | the task, which tells the record how each run ended |
// | `state` | where a job stands, as users are told |
// | `error` | why a job has no output, and what gives a refused one back |
// | `handle` | [`Job`]: what is known of a record by its output alone |
// | `repeating` | [`Repeating`], and the methods of the wheel that return one |
// | `pending_run` | what a schedule moves its job's pending run with |
// | `schedule` | when the next run is due |
// | `keyed` | [`Jobs`], and the table behind them |

mod error;
mod handle;
mod keyed;
mod pending_run;
mod place;
mod record;
mod repeat;
mod repeating;
mod run;
mod schedule;
mod stage;
mod state;
mod when;
mod work;

use std::time::Duration;

use tokio::time::Instant;

pub use error::{JobError, TryRunError};
pub use handle::Job;
pub use keyed::Jobs;
pub use pending_run::PendingRun;
pub use repeating::Repeating;
pub use schedule::{FixedDelay, FixedRate, Previous, Schedule, Times, Until};
pub use state::{JobInfo, JobState};

use crate::handle::timing_wheel::TimingWheel;
use record::Record;
use when::When;
use work::Once;

impl TimingWheel {
    /// Runs `future` after `delay` from now, in a task of its own on the wheel's runtime. With a `delay` of more than
    /// [583 years](crate::Sleep::deadline) it never runs.
    ///
    /// For a closure, `async move { f() }`.
    ///
    /// # Precision
    /// The task is spawned as a [`sleep`](Self::sleep) is ready: never early, late by less than a tick and the
    /// machine's wake-up time. One that is due already is spawned at once if this is called on the wheel's runtime.
    /// Called elsewhere, it is spawned after a tick, or after a millisecond if that is shorter.
    ///
    /// # Errors
    /// None by this call: if the wheel has ended, or if its [`max_pending`](crate::Builder::max_pending) timers are
    /// pending, `future` is dropped and the job says so when it is awaited. [`try_run_after`](Self::try_run_after)
    /// gives the future back. Use it where nobody keeps the handle, as a wheel that has ended or is full tells only
    /// that.
    ///
    /// # Panics
    /// If the job is refused, and dropping `future` does.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::time::Duration;
    /// use timingwheel::{TimingWheel, job::JobState};
    ///
    /// let wheel = TimingWheel::new();
    /// let mut job = wheel.run_after(Duration::from_secs(10), async { 6 * 7 });
    /// assert_eq!(job.state(), JobState::Pending);
    /// assert_eq!((&mut job).await.unwrap(), 42);
    /// assert_eq!(job.state(), JobState::Done);
    /// assert!(!job.cancel(), "too late");
    /// # }
    /// ```
    pub fn run_after<F>(&self, delay: Duration, future: F) -> Job<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        Job::of(Record::launch_or_tell(self, self.after_now(delay), Once(future)))
    }

    /// Runs `future` at `instant`, as [`run_after`](Self::run_after) does. If that has passed it runs at once.
    pub fn run_at<F>(&self, instant: Instant, future: F) -> Job<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        Job::of(Record::launch_or_tell(self, self.when(instant), Once(future)))
    }

    /// As [`run_after`](Self::run_after), but refuses at once what could not run, and gives it back.
    ///
    /// # Errors
    /// If the wheel has ended, or if its [`max_pending`](crate::Builder::max_pending) timers are pending.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::time::Duration;
    /// use timingwheel::TimingWheel;
    ///
    /// let wheel = TimingWheel::builder().max_pending(1).build().unwrap();
    /// let delay = Duration::from_secs(1);
    /// let _first = wheel.try_run_after(delay, async { "first" }).unwrap();
    /// let refused = wheel.try_run_after(delay, async { "second" }).unwrap_err();
    /// assert_eq!(
    ///     refused.to_string(),
    ///     "the timing wheel refused one more timer: 1 are pending, and its max_pending is 1"
    /// );
    /// assert_eq!(refused.into_inner().await, "second");
    /// # }
    /// ```
    pub fn try_run_after<F>(&self, delay: Duration, future: F) -> Result<Job<F::Output>, TryRunError<F>>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        try_run(self, self.after_now(delay), future)
    }

    /// As [`run_at`](Self::run_at), but refuses at once what could not run, and gives it back.
    ///
    /// # Errors
    /// As [`try_run_after`](Self::try_run_after).
    pub fn try_run_at<F>(&self, instant: Instant, future: F) -> Result<Job<F::Output>, TryRunError<F>>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        try_run(self, self.when(instant), future)
    }
}

fn try_run<F>(wheel: &TimingWheel, when: When, future: F) -> Result<Job<F::Output>, TryRunError<F>>
where
    F: Future<Output: Send> + Send + 'static,
{
    match Record::launch(wheel, when, Once(future)) {
        Ok(record) => Ok(Job::of(record)),
        Err((error, Once(future))) => Err(TryRunError::new(error, future)),
    }
}
