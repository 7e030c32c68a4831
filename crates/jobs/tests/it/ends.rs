//! How repeating jobs end when something goes wrong: panics, a wheel that is full, the end of the wheel and its
//! runtime.

use std::sync::Arc;

use timingwheel::TimingWheel;
use timingwheel_jobs::{FixedDelay, JobState, Jobs, JobsExt, Previous, Schedule};
use tokio::task::yield_now;
use tokio::time::sleep;
use tokio_test::{assert_pending, assert_ready, task};

use crate::runs::Runs;
use crate::{DAY, ms, rate};

/// Panics when it is dropped, also while another panic goes on.
struct Always;

impl Drop for Always {
    fn drop(&mut self) {
        panic!("the drop of the closure");
    }
}

#[tokio::test(start_paused = true)]
async fn a_closure_that_panics_as_it_is_dropped_after_a_panic_ends_its_job_alone() {
    let (wheel, mut asked) = (TimingWheel::new(), 0);
    let schedule = move |previous: Previous| {
        asked += 1;
        assert!(asked < 3, "in the schedule");
        Some(previous.due + ms(10))
    };
    let always = Always;
    let in_schedule = wheel.run_by(schedule, move || {
        let _owned = &always;
        async {}
    });
    let always = Always;
    let in_run = wheel.run_by(rate(ms(10)), move || {
        let _owned = &always;
        async { panic!("in the run") }
    });
    let always = Always;
    let in_closure = wheel.run_by(rate(ms(10)), move || {
        let _owned = &always;
        if true {
            panic!("in the closure");
        }
        async {}
    });
    for (job, text) in
        [(in_schedule, "in the schedule"), (in_run, "in the run"), (in_closure, "in the closure")]
    {
        assert_eq!(job.await.unwrap_err().to_string(), format!("the job panicked: {text}"));
    }
}

#[tokio::test(start_paused = true)]
async fn at_a_shutdown_a_job_between_runs_ends_and_one_that_runs_ends_after_its_run() {
    let wheel = TimingWheel::new();
    let runs = Runs::new();
    let between = runs.job(&wheel, rate(ms(10)), &[]);
    let during = runs.job(&wheel, rate(ms(10)), &[10, 10, 10]);
    let due_after = runs.job(&wheel, rate(ms(10)), &[20, 20]);
    let once = wheel.run_after(ms(12), async { sleep(ms(10)).await });
    sleep(ms(15)).await;
    assert_eq!(wheel.shutdown(), 1);
    for job in [between, during, due_after] {
        let error = job.await.unwrap_err();
        assert!(error.reason().unwrap().is_shutdown(), "{error}");
    }
    assert_eq!(runs.began(), [10, 10, 10]);
    once.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_drops_at_once_what_waits_and_tells_whoever_awaits_it() {
    let wheel = TimingWheel::new();
    let (jobs, owned) = (Jobs::new(&wheel), Arc::new(()));
    let held = || {
        let owned = owned.clone();
        async move { drop(owned) }
    };
    let mut job = task::spawn(wheel.run_after(DAY, held()));
    jobs.try_run_after(7, DAY, held()).unwrap();
    let mut join = task::spawn(jobs.join(&7).unwrap());
    assert_pending!(job.poll());
    assert_pending!(join.poll());
    assert_eq!(wheel.shutdown(), 2);
    assert_eq!((Arc::strong_count(&owned), job.is_woken(), join.is_woken()), (1, true, true));
    assert!(assert_ready!(job.poll()).unwrap_err().reason().unwrap().is_shutdown());
    assert_eq!(assert_ready!(join.poll()), JobState::CouldNotRun);
}

#[tokio::test(start_paused = true)]
async fn a_job_whose_next_run_is_always_due_lets_others_run_and_begins_none_after_a_cancel() {
    let schedules: [Box<dyn Schedule>; 2] =
        [Box::new(FixedDelay::new(ms(0))), Box::new(|previous: Previous| Some(previous.due - ms(1)))];
    for schedule in schedules {
        let runs = Runs::new();
        let job = runs.job(&TimingWheel::new(), schedule, &[]);
        // It has ended a run, and lets this task run before it begins the next.
        while runs.began().len() < 3 {
            yield_now().await;
        }
        let before = runs.began();
        assert!(job.cancel());
        sleep(DAY).await;
        assert_eq!(runs.began(), before);
        assert!(job.await.unwrap_err().is_cancelled());
    }
}
