//! The places of jobs on a wheel with a bound: a job that repeats keeps its own until it is over, one that replaces
//! another takes the place of that, and every place is free again in the end.

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use timingwheel::time::set_wheel;
use timingwheel::{Sleep, TimingWheel};
use timingwheel_jobs::{JobState, Jobs, JobsExt, Repeating, Schedule};
use tokio::sync::Notify;
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};

use crate::{DAY, HANG_GUARD, Runs, bounded, fill, free, ms, rate, runtime, state};

#[tokio::test(start_paused = true)]
async fn a_wheel_that_is_full_when_a_run_has_ended_does_not_end_the_job_and_the_handle_tells() {
    let wheel = bounded(1);
    let runs = Runs::new();
    let job = runs.job(&wheel, rate(ms(10)), &[5, 5]);
    sleep(ms(12)).await;
    let other = fill(&wheel);
    assert_eq!(other.len(), 1, "a job that runs has no place");
    sleep(ms(20)).await;
    assert_eq!((runs.began(), job.refusals()), (vec![10, 20, 30], 3));
    // A job without a place is moved, and takes one for its next run if there is one.
    sleep(ms(5)).await;
    assert!(job.reset(runs.start + ms(50)));
    assert_eq!((job.due(), wheel.pending()), (Some(runs.start + ms(50)), 1));
    drop(other);
    assert_eq!(free(&wheel), 1);
    sleep(ms(17)).await;
    assert_eq!((job.state(), free(&wheel)), (JobState::Pending, 0));
    assert_eq!(runs.began(), [10, 20, 30, 50]);
    assert!(job.cancel());
    assert_eq!(job.await.unwrap_err().to_string(), "the job was cancelled");
    assert_eq!(free(&wheel), 1);
}

/// A job that is refused a place after its first run, and whatever has taken all places meanwhile.
async fn refused_after_a_run(wheel: &TimingWheel) -> (Repeating, Vec<Sleep>) {
    let ends = Arc::new(Notify::new());
    let wait = ends.clone();
    let job = wheel.run_every(DAY, move || {
        let wait = wait.clone();
        async move { wait.notified().await }
    });
    let others = fill(wheel);
    ends.notify_one();
    while job.refusals() == 0 && !job.is_finished() {
        yield_now().await;
    }
    (job, others)
}

#[tokio::test(start_paused = true)]
async fn a_job_that_waits_without_a_place_does_not_run_after_the_end_of_the_wheel() {
    let wheel = bounded(1);
    let (job, _others) = refused_after_a_run(&wheel).await;
    assert_eq!((job.refusals(), job.state()), (1, JobState::Pending));
    wheel.shutdown();
    let told = timeout(2 * DAY, job).await.expect("it has run again");
    assert!(told.unwrap_err().reason().unwrap().is_shutdown());
}

#[tokio::test(start_paused = true)]
async fn a_job_without_a_place_could_not_run_where_the_full_wheel_is_that_of_its_runtime() {
    let wheel = bounded(1);
    set_wheel(wheel.clone()).unwrap();
    let (job, _others) = refused_after_a_run(&wheel).await;
    assert_eq!(job.state(), JobState::CouldNotRun);
    assert!(job.await.unwrap_err().reason().unwrap().is_at_capacity());
}

#[test]
fn a_job_that_waits_without_a_place_ends_with_its_runtime() {
    for workers in [0, 2] {
        let runtime = runtime(workers);
        let (job, _others) = runtime.block_on(async { refused_after_a_run(&bounded(1)).await });
        assert_eq!((job.refusals(), job.state()), (1, JobState::Pending));
        drop(runtime);
        assert_eq!(job.state(), JobState::CouldNotRun);
        assert!(futures::executor::block_on(job).unwrap_err().reason().unwrap().is_shutdown());
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_that_waits_takes_one_place_and_gives_it_back_however_it_ends() {
    let wheel = bounded(1);
    let run = |times| wheel.try_run_by(rate(ms(10)).times(times), || sleep(ms(5))).unwrap();
    run(3).await.unwrap();
    assert!(run(3).cancel());
    let panics = wheel.try_run_by(rate(ms(10)), || async { panic!("as asked") }).unwrap();
    assert!(panics.await.unwrap_err().is_panic());
    assert_eq!((free(&wheel), wheel.pending()), (1, 0));
    // One whose only run has begun has no place for another.
    let jobs = Jobs::new(&wheel);
    jobs.try_run_after("key", ms(1), sleep(DAY)).unwrap();
    sleep(ms(2)).await;
    let _others = fill(&wheel);
    assert!(jobs.try_run_after("key", ms(1), async {}).unwrap_err().error().is_at_capacity());
    assert_eq!(state(jobs.get("key")), Some(JobState::Running));
}

/// Only the wheel can spawn it, and has no place.
#[test]
fn a_job_that_is_due_elsewhere_on_a_full_wheel_could_not_run() {
    let runtime = runtime(2);
    let wheel = runtime.block_on(async { bounded(1) });
    let _others = fill(&wheel);
    let job = wheel.run_after(ms(0), async {});
    assert_eq!(job.state(), JobState::CouldNotRun);
    assert!(futures::executor::block_on(job).unwrap_err().reason().unwrap().is_at_capacity());
}

/// Neither tokio's timers nor the wheel have a place for it.
#[test]
fn a_job_goes_on_beside_a_full_wheel_on_a_runtime_without_timers() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_io().build().unwrap();
    let _within = runtime.enter();
    let wheel = bounded(1);
    let (places, (ran, has_run)) = (Arc::new(Mutex::new(Vec::new())), channel());
    let (full, filled) = (wheel.clone(), places.clone());
    let job = wheel.run_by(rate(ms(1)), move || {
        filled.lock().unwrap().extend(fill(&full));
        // Nobody listens after a few.
        _ = ran.send(());
        async {}
    });
    let run = || has_run.recv_timeout(HANG_GUARD).expect("it has ended, or hangs");
    // A run that is late is followed by the next at once, which needs no place.
    while job.refusals() == 0 {
        run();
    }
    has_run.try_iter().for_each(drop);
    (0..3).for_each(|_| run());
    assert_eq!(places.lock().unwrap().len(), 1, "{job:?}");
}
