//! Jobs on a [timing wheel](timingwheel): code that runs later, in a task of its own.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! use std::time::Duration;
//! use timingwheel::TimingWheel;
//! use timingwheel_jobs::JobsExt;
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
//! Until a job is due, it is an entry in the wheel and a piece of memory that holds its future. It is no task. When the
//! job is due, the wheel's own task, the driver, spawns the future on the wheel's runtime, wherever the job was made. So no
//! code of a job runs on the driver, and a job that is slow or panics neither delays nor loses another.
//!
//! # Again and again
//!
//! [`run_every`](JobsExt::run_every) and [`run_by`](JobsExt::run_by) run the futures of a closure, one after the other, by
//! a [`Schedule`]. After each run the schedule says when the next is due: at a [`FixedRate`], after a [`FixedDelay`], ever
//! more slowly by a [`Backoff`], or by a `Schedule` of your own. A run may [decide](NextRun) that itself. The first run of
//! a `FixedRate` or a `FixedDelay` begins at once, unless you give it a start.
//!
//! A job has one run at a time. If a run takes longer than the period, the next begins when it has ended. The schedule
//! decides what becomes of the runs that were missed by then. A fixed rate treats them as an
//! [`Interval`](timingwheel::Interval) does, with tokio's [`MissedTickBehavior`](tokio::time::MissedTickBehavior).
//!
//! With a [tolerance](Schedule::with_tolerance), runs of different jobs begin together, a little late.
//!
//! # By keys
//!
//! [`Jobs`] address jobs by keys of yours: to replace, remove, move, await, look up, list, count and stop them, and to
//! [bound](Jobs::with_concurrency) how many run at once.
//!
//! # A limit for each run
//!
//! Put a timeout round the run's work: `async { wheel.timeout(limit, work).await }`. With the crate `timingwheel-deadline`, the
//! calls and tasks within the run end with it too:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! use std::time::Duration;
//! use timingwheel::TimingWheel;
//! use timingwheel_deadline::{DeadlineExt, Ended};
//! use timingwheel_jobs::JobsExt;
//! use tokio::{sync::mpsc, time::sleep};
//!
//! let wheel = TimingWheel::new();
//! let (deadlines, (sender, mut results)) = (wheel.clone(), mpsc::unbounded_channel());
//! let import = wheel.run_every(Duration::from_secs(60), move || {
//!     let (deadline, sender) = (deadlines.deadline_in(Duration::from_secs(5)), sender.clone());
//!     async move {
//!         let imported = deadline.run(sleep(Duration::from_secs(9))).await;
//!         let _ = sender.send(imported);
//!     }
//! });
//! assert_eq!(results.recv().await, Some(Err(Ended::Passed)));
//! import.cancel();
//! # }
//! ```
//!
//! # In the logs
//!
//! With the feature `tracing` a job runs in the span in which it was made, and a panic of it is an event of level `ERROR`.
//!
//! # Its end
//!
//! | what happens | the job | its handle |
//! |---|---|---|
//! | the handle is dropped | goes on, unless the handle was made to [cancel on drop](Job::cancel_on_drop) | is gone |
//! | [`Job::cancel`] while the job is pending | is dropped at once; its record within a second | [`JobError::is_cancelled`] |
//! | [`Job::cancel`] later | goes on | has the job's result |
//! | [`Jobs::shutdown_now`] | is aborted; what has not begun is handed back | [`JobError::is_cancelled`] |
//! | [`Job::abort`] during a run | is dropped where it waits next | [`JobError::is_cancelled`] |
//! | [`Repeating::cancel`] during a run | goes on to the end of the run | [`JobError::is_cancelled`] |
//! | the schedule has no further run | is over | has the number of runs |
//! | the job panics | is over; the panic hook has reported it, [`Stats::wakers_panicked`](timingwheel::Stats::wakers_panicked) and [`Jobs::panicked`] count it | [`JobError::is_panic`], with what the panic carried |
//! | the wheel's last handle is dropped | goes on, and the wheel with it | has the job's result |
//! | the wheel is [shut down](timingwheel::TimingWheel::shutdown) | a pending job is dropped; a run goes on to its end | [`JobError::reason`], or the job's result |
//! | [`Jobs::shutdown`] | goes on to the end of its run, until the limit; what has not begun is handed back | [`JobError::is_cancelled`], or the job's result |
//! | the wheel is full when a run has ended | is over, because the next run has no place | [`JobError::reason`] |
//! | the runtime is shut down | is dropped, pending or running | [`JobError::reason`] |

mod built_in;
mod error;
mod handle;
mod info;
mod jobs;
mod on_wheel;
mod record;
mod schedule;
mod table;
mod task;

pub use equivalent::Equivalent;

pub use built_in::{Backoff, FixedDelay, FixedRate};
pub use error::{JobError, TryRunError};
pub use handle::{Job, Repeating};
pub use info::{JobInfo, JobState, Join};
pub use jobs::{Ended, Jobs, StoppedJob};
pub use on_wheel::JobsExt;
pub use schedule::{LastRun, Limited, MakeRun, NextRun, PendingRun, Replanned, Schedule};

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Calls code of a user's that may panic. The panic hook has told of that.
fn caught<T>(call: impl FnOnce() -> T) -> Result<T, JobError> {
    catch_unwind(AssertUnwindSafe(call)).map_err(JobError::panicked)
}

/// Drops what a user's code may stand behind, such as a key. A panic of that is nobody's here: the panic hook has told of it.
fn discard<T>(it: T) {
    _ = caught(|| drop(it));
}

/// No code that may panic runs under the lock of a job or of the list.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs the README's code.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
