//! Jobs that run once: `run_after`, `run_at`, their `try_` forms and their handle.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use timingwheel::TimingWheel;
use timingwheel_jobs::{Job, JobState, JobsExt};
use tokio::runtime::Handle;
use tokio::time::{Instant, MissedTickBehavior, sleep};
use tokio_test::{assert_pending, task};

use crate::{DAY, ms, rate, rest};

#[tokio::test(start_paused = true)]
async fn dropping_the_handle_cancels_only_if_asked() {
    let wheel = TimingWheel::new();
    let runs = Arc::new(AtomicUsize::new(0));
    let run = || {
        let runs = runs.clone();
        async move { runs.fetch_add(1, Ordering::Relaxed) }
    };
    drop(wheel.run_after(ms(10), run()));
    drop(wheel.run_after(ms(10), run()).cancel_on_drop());
    assert_eq!(wheel.pending(), 1);
    sleep(ms(11)).await;
    assert_eq!(runs.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn a_job_that_is_due_runs_at_once_without_moving_the_clock() {
    let wheel = TimingWheel::new();
    let start = Instant::now();
    wheel.run_after(Duration::ZERO, async {}).await.unwrap();
    wheel.run_at(start - DAY, async {}).await.unwrap();
    // In a job that has just come due, too: the driver has been at this very moment.
    let inner = wheel.clone();
    let job = wheel
        .run_after(ms(5), async move { inner.run_after(Duration::ZERO, async { Instant::now() }).await });
    assert_eq!(job.await.unwrap().unwrap(), start + ms(5));
    assert_eq!(wheel.stats().armed, 1);
}

#[tokio::test(start_paused = true)]
async fn jobs_beyond_the_end_of_time_are_pending_for_ever() {
    let wheel = TimingWheel::new();
    let job = wheel.run_after(Duration::MAX, async {});
    let behavior = MissedTickBehavior::Delay;
    let again = [
        wheel.run_by(rate(Duration::MAX), || async {}),
        wheel.run_by(rest(Duration::MAX), || async {}),
        wheel.run_by(rate(Duration::MAX).with_missed_tick_behavior(behavior), || async {}),
    ];
    let century = wheel.run_after(DAY * 36_525, async {});
    let moved = wheel.run_after(DAY, async {});
    assert!(moved.reset_after(Duration::MAX));
    sleep(DAY * 1_000).await;
    assert_eq!(again.map(|job| job.state()), [JobState::Pending; 3]);
    sleep(DAY * 35_524).await;
    assert_eq!([&job, &century, &moved].map(Job::state), [JobState::Pending; 3]);
    century.await.unwrap();
    assert_eq!([&job, &moved].map(Job::state), [JobState::Pending; 2]);
    // Until it is moved back.
    assert!(moved.reset_after(ms(1)));
    moved.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_task_that_polled_last_is_the_one_that_is_woken() {
    let wheel = TimingWheel::new();
    let mut job = wheel.run_after(ms(5), async {});
    let (mut first, mut second) = (task::spawn(()), task::spawn(()));
    assert_pending!(first.enter(|cx, _| Pin::new(&mut job).poll(cx)));
    assert_pending!(second.enter(|cx, _| Pin::new(&mut job).poll(cx)));
    sleep(ms(6)).await;
    assert_eq!((first.is_woken(), second.is_woken()), (false, true));
    assert!(matches!(second.enter(|cx, _| Pin::new(&mut job).poll(cx)), Poll::Ready(Ok(()))));
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "a job's handle was polled again after its result")]
async fn a_job_polled_again_after_its_result_panics() {
    let mut job = TimingWheel::new().run_after(ms(1), async {});
    (&mut job).await.unwrap();
    let _ = job.await;
}

#[test]
fn jobs_run_on_the_wheels_runtime_wherever_they_are_made() {
    let multi =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (ours, other) = (multi(), multi());
    let wheel = ours.block_on(async { TimingWheel::new() });
    let id = ours.handle().id();
    let runtime_of = |delay| wheel.run_after(delay, async { Handle::current().id() });
    for delay in [Duration::ZERO, ms(2)] {
        // Outside of any runtime, within another, and within its own.
        let job = runtime_of(delay);
        assert_eq!(tokio_test::block_on(job).unwrap(), id);
        assert_eq!(other.block_on(async { runtime_of(delay).await }).unwrap(), id);
        assert_eq!(ours.block_on(async { runtime_of(delay).await }).unwrap(), id);
    }
}

#[tokio::test(start_paused = true)]
async fn jobs_that_are_over_spend_the_budget_of_the_task_that_awaits_them() {
    let wheel = TimingWheel::new();
    let jobs: Vec<Job<()>> = (0..1_000).map(|_| wheel.run_after(Duration::ZERO, async {})).collect();
    sleep(ms(1)).await;
    // In a task of tokio's, where there is a budget.
    let polls = tokio::spawn(async move {
        let mut all = pin!(async {
            for job in jobs {
                job.await.unwrap();
            }
        });
        let mut polls = 0;
        poll_fn(|cx| {
            polls += 1;
            all.as_mut().poll(cx)
        })
        .await;
        polls
    });
    assert!(polls.await.unwrap() > 1, "it kept the worker for a thousand jobs");
}
