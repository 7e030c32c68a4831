//! How do I bound a call, give it more time while it shows progress, and see that the work behind it stopped? What if
//! it does not?
//!
//! `cargo run --release -p timingwheel-examples --example timeout`, or with `-- --help` for the settings and
//! `-- --short` for a quick look.
//!
//! A simple limit is `wheel.timeout(limit, call).await`. The functions below have the other cases, to copy. The rest runs
//! eight cases, each with many calls at once on a wheel of its own. The work behind the calls waits on tokio's timers, so
//! the wheel counts only the limits. The closing table shows how the calls of each case ended, that each took at most one
//! timer however often its deadline moved, and that no work was left behind. One case shows a mistake: if only the wait for
//! a task is cut off, the task goes on. If a case went otherwise, the program says so and exits with 1.

use std::panic::resume_unwind;
use std::pin::pin;
use std::time::Duration;

use timingwheel::{Elapsed, TimingWheel};
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// Awaits `call`, which may take as long as it likes, but not longer than `limit` without progress.
async fn while_it_progresses<F: Future>(
    wheel: &TimingWheel,
    limit: Duration,
    progress: &Notify,
    call: F,
) -> Result<F::Output, Elapsed> {
    let mut call = pin!(wheel.timeout(limit, call));
    loop {
        tokio::select! {
            biased; // Progress made in time counts, even if it is seen late.
            () = progress.notified() => call.as_mut().reset_after(limit),
            result = &mut call => return result,
        }
    }
}

/// Runs `work` in a task of its own. A task outlives the future that waits for it, unless it is aborted.
async fn in_a_task(
    wheel: &TimingWheel,
    limit: Duration,
    work: impl Future<Output = ()> + Send + 'static,
) -> Result<(), Elapsed> {
    let mut tasks = JoinSet::new();
    tasks.spawn(work);
    let result = wheel.timeout(limit, tasks.join_next()).await;
    // Aborts it and waits until it is gone. Dropping the set aborts it too, but does not wait.
    tasks.shutdown().await;
    match result? {
        Some(Err(error)) if error.is_panic() => resume_unwind(error.into_panic()),
        _ => Ok(()),
    }
}

/// Awaits `call` with a limit, if the wheel has room for one more timer. Else it goes without.
async fn if_there_is_room<F: Future>(
    wheel: &TimingWheel,
    limit: Duration,
    call: F,
) -> Result<F::Output, Elapsed> {
    match wheel.try_sleep(limit) {
        Ok(limit) => limit.limiting(call).await,
        Err(_full) => Ok(call.await),
    }
}

mod cases;
#[path = "../shared/limits.rs"]
mod limits;
#[path = "../shared/machine.rs"]
mod machine;

#[tokio::main]
async fn main() -> std::process::ExitCode {
    cases::main().await
}
