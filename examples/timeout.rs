//! How do I bound a call, give it more time while it makes progress, and see that the work behind it stopped?
//!
//! `cargo run --release -p timingwheel-examples --example timeout`
//!
//! A simple limit is `wheel.timeout(limit, call).await`. The three functions below have the other cases, to copy.

use std::panic::resume_unwind;
use std::pin::pin;
use std::time::Duration;

use timingwheel::{Elapsed, TimingWheel};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Awaits `call`, which may take any time in all, but not longer than `limit` without progress.
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
    // Aborts the task and waits until it is gone. Dropping the set aborts it too, but does not wait.
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

#[tokio::main]
async fn main() -> Result<(), timingwheel::BuildError> {
    let (limit, quick, slow) =
        (Duration::from_millis(200), Duration::from_millis(20), Duration::from_secs(20));
    let wheel = TimingWheel::new();
    let show = |call: &str, end: Result<(), Elapsed>| {
        let armed = wheel.stats().armed;
        println!("| {call:<31} | {:<8} | {armed:>13} |", if end.is_ok() { "answered" } else { "cut off" });
    };

    println!("Each call has {limit:?}.\n");
    println!("| call                            | ended    | timers so far |");
    println!("|---------------------------------|----------|--------------:|");
    show("quick", wheel.timeout(limit, sleep(quick)).await);
    show("slow", wheel.timeout(limit, sleep(slow)).await);
    show("slow, in a task", in_a_task(&wheel, limit, sleep(slow)).await);

    let progress = Notify::new();
    let download = async {
        for _part in 0..30 {
            sleep(quick).await;
            progress.notify_one();
        }
    };
    show("30 quick parts", while_it_progresses(&wheel, limit, &progress, download).await);

    let full = TimingWheel::builder().max_pending(1).build()?;
    let _only = full.try_sleep(slow).expect("room for one");
    show("quick, on a wheel that is full", if_there_is_room(&full, limit, sleep(quick)).await);
    assert_eq!((wheel.pending(), full.pending()), (0, 1), "a call that has ended leaves no timer");
    println!(
        "\nWhat it means: a call takes one timer, however often its deadline moves. Its\n\
         work ends with it; work in a task has to be aborted."
    );
    Ok(())
}
