//! What did not run is handed back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use timingwheel::TimingWheel;
use timingwheel_jobs::{FixedRate, JobState, Jobs, Previous, Schedule, StoppedJob};
use tokio::time::{Instant, sleep};

use crate::{Bomb, DAY, ms, rate};

#[tokio::test(start_paused = true)]
async fn a_stop_hands_back_the_futures_of_what_was_pending() {
    let wheel = TimingWheel::new();
    let (jobs, ran) = (Jobs::new(&wheel), Arc::new(AtomicU64::new(0)));
    let count = ran.clone();
    let add = move |number: u64| {
        let ran = count.clone();
        async move {
            sleep(ms(1)).await;
            ran.fetch_add(number, Ordering::Relaxed);
        }
    };
    jobs.try_run_after(1, DAY, add(1)).unwrap();
    let again = add.clone();
    jobs.try_run_by(2, rate(ms(10)), move || again(10)).unwrap();
    jobs.try_run_after(3, ms(1), sleep(DAY)).unwrap();
    sleep(ms(15)).await;
    assert_eq!(ran.load(Ordering::Relaxed), 10);
    let ended = jobs.shutdown(ms(0)).await;
    assert_eq!((ended.finished, ended.aborted), (0, 1));
    tokio::task::yield_now().await;
    let mut stopped = ended.not_begun;
    assert_eq!((jobs.len(), wheel.pending()), (0, 0));
    stopped.sort_by_key(|job| job.key);
    let states: Vec<_> = stopped.iter().map(|job| (job.key, job.info.state)).collect();
    assert_eq!(states, [(1, JobState::Pending), (2, JobState::Pending)]);
    assert_eq!(stopped[1].info.time_left(), Some(ms(5)));
    let futures: Vec<_> = stopped.into_iter().map(|job| job.future).collect();
    assert_eq!(futures.iter().map(Option::is_some).collect::<Vec<_>>(), [true, true]);
    for future in futures.into_iter().flatten() {
        future.await;
    }
    assert_eq!(ran.load(Ordering::Relaxed), 21, "the repeating job ran once more");
}

#[tokio::test(start_paused = true)]
async fn what_nobody_takes_is_dropped_with_the_account_of_it_and_panics_in_nobody() {
    let jobs = Jobs::new(&TimingWheel::new());
    let owned = Arc::new(());
    let held = owned.clone();
    jobs.try_run_after(7, DAY, async move { drop(held) }).unwrap();
    for key in [8, 9] {
        let bomb = Bomb;
        jobs.try_run_after(key, DAY, async move { drop(bomb) }).unwrap();
    }
    let bomb = Bomb;
    let make = move || {
        let _owned = &bomb;
        async {}
    };
    jobs.try_run_by(10, rate(DAY), make).unwrap();
    let join = jobs.join(&7).unwrap();
    let stopped = jobs.shutdown(ms(0)).await.not_begun;
    assert_eq!(join.await, JobState::Cancelled);
    assert_eq!(Arc::strong_count(&owned), 2);
    drop(stopped);
    assert_eq!(Arc::strong_count(&owned), 1);
}

/// A schedule that panics as it is dropped.
struct Explosive(FixedRate, #[allow(dead_code, reason = "it is dropped")] Bomb);

impl Schedule for Explosive {
    fn next(&mut self, previous: Previous) -> Option<Instant> {
        self.0.next(previous)
    }
}

#[tokio::test(start_paused = true)]
async fn a_schedule_that_panics_as_it_is_dropped_costs_nobody_the_run_that_is_handed_back() {
    let jobs = Jobs::new(&TimingWheel::new());
    let runs = Arc::new(AtomicUsize::new(0));
    let count = runs.clone();
    let make = move || {
        count.fetch_add(1, Ordering::Relaxed);
        async {}
    };
    jobs.try_run_by("key", Explosive(rate(DAY), Bomb), make).unwrap();
    for stopped in jobs.shutdown(ms(0)).await.not_begun {
        stopped.future.expect("it was pending").await;
    }
    assert_eq!(runs.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_for_what_runs_aborts_the_rest_at_its_limit_and_begins_nothing_new() {
    let wheel = TimingWheel::new();
    let (jobs, start) = (Jobs::new(&wheel), Instant::now());
    jobs.try_run_after("short", ms(0), sleep(ms(30))).unwrap();
    jobs.try_run_by("again", rate(ms(1)), || sleep(ms(20))).unwrap();
    jobs.try_run_after("stuck", ms(0), std::future::pending()).unwrap();
    jobs.try_run_after("later", ms(15), async { unreachable!("nothing new begins") }).unwrap();
    sleep(ms(10)).await;
    let stuck = jobs.join("stuck").unwrap();
    // Two wait, and the first has what did not begin.
    let (ended, other) = tokio::join!(jobs.shutdown(ms(100)), jobs.shutdown(ms(500)));
    assert_eq!((ended.finished, ended.aborted, start.elapsed()), (2, 1, ms(110)));
    assert_eq!((other.finished, other.aborted, other.not_begun.len()), (3, 0, 0));
    assert_eq!(stuck.await, JobState::Cancelled);
    let StoppedJob { key, info, future } = ended.not_begun.into_iter().next().unwrap();
    assert_eq!((key, info.state, future.is_some()), ("later", JobState::Pending, true));
    assert_eq!((jobs.len(), wheel.pending()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_that_is_dropped_lets_what_runs_go_on() {
    let jobs = Jobs::new(&TimingWheel::new());
    jobs.try_run_after("short", ms(0), sleep(ms(30))).unwrap();
    tokio::task::yield_now().await;
    let end = jobs.join("short").unwrap();
    assert!(tokio::time::timeout(ms(10), jobs.shutdown(DAY)).await.is_err());
    assert_eq!(end.await, JobState::Done);
    assert!(jobs.try_run_after("late", DAY, async {}).is_err());
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_has_its_limit_also_where_the_wheel_is_full_or_has_ended() {
    for ends in [false, true] {
        let wheel = TimingWheel::builder().max_pending(0).build().unwrap();
        let (jobs, start) = (Jobs::new(&wheel), Instant::now());
        jobs.try_run_after("stuck", ms(0), std::future::pending()).unwrap();
        tokio::task::yield_now().await;
        if ends {
            wheel.shutdown();
        }
        assert_eq!(jobs.shutdown(ms(50)).await.aborted, 1);
        assert_eq!(start.elapsed(), ms(50));
    }
}
