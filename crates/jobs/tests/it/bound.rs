//! Jobs on a wheel with a bound: a job that runs has no place, and a job without a place is refused, with all that it has.

use std::future::ready;
use std::sync::Arc;
use std::sync::mpsc::channel;

use timingwheel_jobs::{JobState, Jobs, JobsExt};
use tokio::time::{Instant, sleep};

use crate::{DAY, Runs, bounded, fill, ms, rate, runtime, state};

#[tokio::test(start_paused = true)]
async fn a_job_whose_next_run_has_no_place_could_not_run_and_says_when_it_was_due() {
    let (wheel, runs) = (bounded(1), Runs::new());
    let jobs = Jobs::new(&wheel);
    let job = runs.job(&wheel, rate(ms(10)), &[5, 5]);
    sleep(ms(12)).await;
    let others = fill(&wheel);
    assert_eq!(others.len(), 1, "a job that runs has no place");
    sleep(ms(5)).await;
    assert_eq!((job.info().state, job.info().due), (JobState::CouldNotRun, Some(runs.start + ms(20))));
    assert!(job.await.unwrap_err().reason().unwrap().is_at_capacity());
    // It stays listed under its key.
    jobs.try_run_every(1, ms(10), || async {}).unwrap();
    sleep(ms(1)).await;
    assert_eq!(state(jobs.get(&1)), Some(JobState::CouldNotRun));
    let stopped = jobs.shutdown(ms(0)).await;
    assert_eq!((stopped.not_begun.len(), stopped.finished, stopped.aborted), (1, 0, 0));
}

/// Only the wheel can spawn it, and has no place.
#[test]
fn a_job_that_is_due_at_once_elsewhere_is_refused_by_a_full_wheel_and_replaces_nothing() {
    let runtime = runtime(2);
    let wheel = runtime.block_on(async { bounded(1) });
    let jobs = Jobs::new(&wheel);
    jobs.try_run_after("key", DAY, async {}).unwrap();
    assert_eq!(wheel.run_after(ms(0), ready(())).info().state, JobState::CouldNotRun);
    for refused in [wheel.try_run_after(ms(0), ready(())), wheel.try_run_at(Instant::now(), ready(()))] {
        assert!(refused.map(drop).unwrap_err().error().is_at_capacity());
    }
    assert!(jobs.try_run_after("key", ms(0), ready(())).unwrap_err().error().is_at_capacity());
    assert_eq!(state(jobs.get("key")), Some(JobState::Pending), "nothing has replaced it");
}

/// Neither tokio's timers nor the wheel have a place for the next run.
#[test]
fn a_job_without_a_place_is_over_also_on_a_runtime_without_timers() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_io().build().unwrap();
    let _within = runtime.enter();
    let wheel = bounded(1);
    let (full, places) = (wheel.clone(), Arc::new(std::sync::Mutex::new(Vec::new())));
    let filled = places.clone();
    let (told, is_told) = channel();
    let jobs = Jobs::new(&wheel);
    let make = move || {
        filled.lock().unwrap().extend(fill(&full));
        async {}
    };
    jobs.try_run_by(1, rate(ms(5)), make).unwrap();
    let join = jobs.join(&1).unwrap();
    std::thread::spawn(move || told.send(futures::executor::block_on(join)));
    assert_eq!(is_told.recv(), Ok(JobState::CouldNotRun));
}
