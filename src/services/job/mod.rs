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
//! Until a job is due, it is an entry in the wheel and a piece of memory that holds its future. It is no task. When the
//! job is due, the driver spawns the future as a task on the wheel's runtime, wherever the job was made. So no code of a
//! job runs on the driver, and a job that is slow or panics neither delays nor loses another.
//!
//! # Again and again
//!
//! [`TimingWheel::run_every`](crate::TimingWheel::run_every) and [`TimingWheel::run_by`](crate::TimingWheel::run_by)
//! run the futures of a closure, one after the other, by a [`Schedule`]. After each run the schedule says when the next
//! is due: at a [`FixedRate`], after a [`FixedDelay`], on [request](OnReset), or by a `Schedule` of your own. The first
//! run of a `FixedRate` or a `FixedDelay` begins at once, unless you give it a start.
//!
//! A job has one run at a time. If a run takes longer than the period, the next begins when it has ended. The schedule
//! decides what becomes of the runs that were missed by then. A fixed rate treats them as an [`Interval`](crate::Interval)
//! does, with tokio's [`MissedTickBehavior`](tokio::time::MissedTickBehavior).
//!
//! # By keys
//!
//! [`Jobs`] address jobs by keys of yours: to replace, remove, move, await, look up, list, count and stop them.
//!
//! # Later than asked
//!
//! A job may be given a [`Tolerance`](crate::Tolerance), so that it begins together with others:
//! [`Job::with_tolerance`], [`Schedule::with_tolerance`], [`Jobs::with_tolerance`].
//!
//! # Its end
//!
//! | what happens | the job | its handle |
//! |---|---|---|
//! | the handle is dropped | goes on, unless the handle was made to [cancel on drop](Job::cancel_on_drop) | is gone |
//! | [`Job::cancel`] while the job is pending | is dropped at once, memory too | [`JobError::is_cancelled`] |
//! | [`Job::take`] while the job is pending | is over; the caller has its future | [`JobError::is_cancelled`] |
//! | [`Job::cancel`] later | goes on | has the job's result |
//! | [`Job::abort`] during a run | is dropped where it waits next | [`JobError::is_cancelled`] |
//! | [`Repeating::cancel`] during a run | goes on to the end of the run | [`JobError::is_cancelled`] |
//! | the schedule has no further run | is over | has the number of runs |
//! | the job panics | is over; the panic hook has reported it, [`Stats::jobs_panicked`](crate::Stats::jobs_panicked) counts it | [`JobError::is_panic`], with what the panic carried |
//! | the wheel's last handle is dropped | goes on, and the wheel with it | has the job's result |
//! | the wheel is [shut down](crate::TimingWheel::shutdown) | is dropped if it is pending; goes on to the end of its run otherwise | [`JobError::reason`], or the job's result |
//! | the runtime is shut down | is dropped, pending or running | [`JobError::reason`] |

// | file | what it has |
// |---|---|
// | `run_once`, `run_repeatedly` | the methods of the wheel that make jobs |
// | `keyed` | [`Jobs`], and the table behind them |
// | `record` | what the wheel, the task and the handle share: the start of a job, its cancel, its changes |
// | `task` | the task of a job, which tells how each run ended |
// | `handle` | [`Job`] and [`Repeating`]: what is known of a record by its output alone |
// | `stage` | how far a job has come: what the record's lock guards |
// | `work` | what a job does, as a trait: once, or again and again |
// | `schedule` | when the next run is due |
// | `pending_run` | what a schedule moves its job's pending run with |
// | `permit_state` | whether a permit stays with a job |
// | `waiter` | whoever waits for a job's end |
// | `joining` | the tasks that await one job by its key |
// | `when` | when a job is due, beside the time at which that was asked |
// | `info` | where a job stands, as users are told |
// | `error` | why a job has no output, and what gives a refused one back |

mod error;
mod handle;
mod info;
mod joining;
mod keyed;
mod pending_run;
mod permit_state;
mod record;
mod run_once;
mod run_repeatedly;
mod schedule;
mod stage;
mod task;
mod waiter;
mod when;
mod work;

pub use error::{JobError, TryRunError};
pub use handle::{Job, Repeating};
pub use info::{JobInfo, JobState};
pub use keyed::{Jobs, Join, StoppedJob};
pub use pending_run::{PendingRun, Replanned};
pub use schedule::{FixedDelay, FixedRate, OnReset, Previous, Schedule, Times, Tolerant, Until};
