//! One deadline for all that a request does, on a [timing wheel](timingwheel).
//!
//! A request that may take 2 s and makes three calls should not give each call 2 s, nor a timer of its own. A [`Deadline`]
//! is a value that travels with the request. All futures that run under it, in any task, share one timer.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! use std::time::Duration;
//! use timingwheel::TimingWheel;
//! use timingwheel_deadline::{DeadlineExt, Ended};
//! use tokio::time::{Instant, sleep};
//!
//! let wheel = TimingWheel::new();
//! let start = Instant::now();
//! let deadline = wheel.deadline_in(Duration::from_secs(2));
//!
//! // A call may take a second, and no longer than the request.
//! let call = |d| deadline.run_in(Duration::from_secs(1), sleep(d));
//! assert!(call(Duration::from_millis(900)).await.is_ok());
//! assert!(call(Duration::from_millis(900)).await.is_ok());
//! assert_eq!(call(Duration::from_millis(900)).await, Err(Ended::Passed));
//! assert_eq!(start.elapsed(), Duration::from_secs(2));
//! # }
//! ```
//!
//! | what | how |
//! |---|---|
//! | a deadline for a request | [`wheel.deadline_in(d)`](DeadlineExt::deadline_in), [`deadline_at`](DeadlineExt::deadline_at) |
//! | a part of the request, which may end sooner | [`child_in`](Deadline::child_in), [`child_at`](Deadline::child_at), [`child`](Deadline::child) |
//! | a future that ends with it | [`run`](Deadline::run), [`run_in`](Deadline::run_in) with a limit of its own |
//! | a branch of `select!` | [`passed`](Deadline::passed) |
//! | more time, or less | [`reset`](Deadline::reset) |
//! | an early end | [`cancel`](Deadline::cancel) |
//! | the deadline of the current task | [`scope`](Deadline::scope), [`Deadline::current`], [`spawn`] |
//! | over the wire | feature `wire`: layers for tower, by `grpc-timeout` or a header of your own |
//! | one operation at a time, as on a connection of a pool | [`ReusableDeadline`], the cheapest |
//! | how much of their time requests use, how many end and where | [`DeadlineCounters`]; feature `metrics` for exporters |
//!
//! # What it costs
//! Making a deadline allocates once, and so does a child; the first child also makes a list. Nothing is armed until a
//! future that runs under the deadline is pending. From then on the tree of a deadline and its
//! children has one entry in the wheel. It moves only for a limit that is earlier than all before.
//!
//! Each poll that finds the future pending takes a lock, which only this request's tasks share. A limit also reads the
//! clock once. While one task waits for one of the tree's deadlines, its further futures under that deadline only look
//! whether the timer fires in time. Arming allocates nothing here: it is needed for the first wait, for a limit that is
//! earlier than all before, and for a wait after the entry fired. A future of another task, or under another deadline of
//! the tree, takes a place in a list. When the entry fires, or a deadline is moved or cancelled, all in that list are
//! looked at. A move to an earlier time wakes the tasks that would wait for longer. Each look at a deadline goes through
//! its ancestors. So make a root for each request, not one for a server, and no long chains.
//!
//! The tree keeps the waker of the task that waited first until the entry fires, or the deadline is cancelled or dropped,
//! also if that task has ended. That task may be woken once more than it needs.
//!
//! Where an operation only needs a time limit for itself and for each of its calls, a [`ReusableDeadline`] costs less than
//! any other form: no allocation, no lock, and one look at the clock for each call that waits.
//!
//! # Coming from `CancellationToken`
//! | tokio-util | here |
//! |---|---|
//! | `CancellationToken::new()` | [`DeadlineExt::deadline_in`] |
//! | `child_token()` | [`Deadline::child`] |
//! | `cancel()`, `is_cancelled()` | [`Deadline::cancel`], [`Deadline::has_ended`] |
//! | `cancelled().await` | [`Deadline::passed`] |
//! | `run_until_cancelled(f)` | [`Deadline::run`] |
//!
//! The idea is that of Go's `context.WithDeadline`.

mod current;
mod deadline;
mod ended;
#[cfg(feature = "metrics")]
pub mod metrics;
#[cfg(all(test, loom))]
mod models;
mod reusable;
mod run;
mod stats;
mod tree;
#[cfg(feature = "wire")]
pub mod wire;

pub use current::spawn;
pub use deadline::{Deadline, DeadlineExt};
pub use ended::Ended;
pub use reusable::{ReusableDeadline, ReusablePassed};
pub use run::{Passed, Run};
pub use stats::{DEPTHS, DeadlineCounters, DeadlineStats};

/// The lock and the timers that the models look at.
mod sync {
    #[cfg(all(test, loom))]
    pub(crate) use {
        crate::models::wheel::{Sleep, Timeout, TimingWheel},
        loom::sync::{Mutex, MutexGuard},
    };
    #[cfg(not(all(test, loom)))]
    pub(crate) use {
        std::sync::{Mutex, MutexGuard},
        timingwheel::{Sleep, TimingWheel},
    };
    #[cfg(not(all(test, loom)))]
    pub(crate) type Timeout = timingwheel::Timeout<std::future::Pending<()>>;
}

/// Runs the README's code.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
