//! One deadline for all that a request does, on a [timing wheel](timingwheel).
//!
//! A request that may take 2 s and makes three calls should not give each call 2 s. A [`Deadline`] is a value that travels
//! with the request: through its calls, into its tasks, and over the wire.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! use std::time::Duration;
//! use timingwheel::TimingWheel;
//! use timingwheel_deadline::{DeadlineExt, Ended};
//! use tokio::time::{Instant, sleep};
//!
//! let start = Instant::now();
//! let request = TimingWheel::new().deadline_in(Duration::from_secs(2));
//!
//! // A call may take a second, and no longer than the request.
//! let call = |d| request.run_within(Duration::from_secs(1), sleep(d));
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
//! | a future that ends with it | [`run`](Deadline::run), and [`run_within`](Deadline::run_within) with a limit of its own |
//! | a task that ends with it | `tokio::spawn(deadline.run(f))`, or deep within a handler [`Deadline::run_current(f)`](Deadline::run_current) |
//! | a branch of `select!` | [`ended`](Deadline::ended) |
//! | more time | [`extend`](Deadline::extend), [`extend_to`](Deadline::extend_to) |
//! | an early end | [`cancel`](Deadline::cancel), [`drop_guard`](Deadline::drop_guard), [`token`](Deadline::token) |
//! | the deadline of the code that runs | [`Deadline::current`] |
//! | over the wire | feature `wire`: layers for tower, by `grpc-timeout` or a header of your own |
//!
//! # Traps
//! - **[`scope`](Deadline::scope) bounds nothing.** It only makes a deadline current; [`run`](Deadline::run) also ends the
//!   future.
//! - **`tokio::spawn` alone leaves the deadline behind.** Spawn [`Deadline::run_current(f)`](Deadline::run_current), or the
//!   task goes on after its request.
//! - **The [`token`](Deadline::token) does not know the time.** It is cancelled by [`cancel`](Deadline::cancel), and not when
//!   the deadline passes.
//! - **Dropping a deadline ends nothing.** Keep a [`drop_guard`](Deadline::drop_guard) where a handler that is dropped has
//!   to end its tasks.
//! - **A guard ends only what runs under its deadline.** A task that was spawned without the deadline goes on.
//! - **A deadline may have no limit.** `deadline_in(Duration::MAX)` is ended by a cancel alone. So is a request under a
//!   server's layer without `at_most`, if its caller sends no header.
//! - **An answer cancels nothing.** A server's layer cancels when the caller hangs up. Tasks of a handler that has answered go
//!   on until the deadline passes.
//! - **Ending drops the future.** It stops at an `.await`. Code that blocks its thread is not interrupted.
//!
//! # What it costs
//! A deadline is two blocks of memory, and so is a child. Each pending future under it has a timer of its own on the wheel,
//! and a registration with the deadline's token, by which it hears of a cancel. The registration outlives the future: the next
//! future of the same task takes it over. It holds a waker, so the memory of that task may stay until the deadline is
//! dropped. Extending moves no timer: a timer that fires at the old time looks at the new one.
//!
//! # Coming from Go's `context`
//! | Go | here |
//! |---|---|
//! | `context.Background()` | [`deadline_in(Duration::MAX)`](DeadlineExt::deadline_in) |
//! | `WithTimeout(ctx, d)`, `WithDeadline(ctx, t)` | [`child_in(d)`](Deadline::child_in), [`child_at(t)`](Deadline::child_at); for one call [`run_within(d, f)`](Deadline::run_within) |
//! | `WithCancel(ctx)`, `defer cancel()` | [`child()`](Deadline::child), [`drop_guard()`](Deadline::drop_guard) |
//! | `<-ctx.Done()` | [`ended().await`](Deadline::ended) |
//! | `ctx.Err()`, `ctx.Deadline()` | [`end()`](Deadline::end), [`instant()`](Deadline::instant) |
//! | `ctx` as the first argument of each function | [`Deadline::current`], or an argument |
//! | `go f(ctx)` | `tokio::spawn(deadline.run(f()))` |
//!
//! # Coming from `CancellationToken`
//! | tokio-util | here |
//! |---|---|
//! | `child_token()` | [`Deadline::child`] |
//! | `cancelled().await` | [`Deadline::ended`] |
//! | `run_until_cancelled(f)` | [`Deadline::run`] |
//! | an argument of another library | [`Deadline::token`] |

mod deadline;
mod ended;
mod run;
#[cfg(feature = "wire")]
pub mod wire;

pub use deadline::{Deadline, DeadlineExt};
pub use ended::Ended;
pub use run::Run;

/// Runs the README's code.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
