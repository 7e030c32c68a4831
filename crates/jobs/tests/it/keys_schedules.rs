//! Schedules of jobs that are changed by their keys.

use timingwheel::TimingWheel;
use timingwheel_jobs::{JobState, Jobs, Previous, Schedule};
use tokio::time::sleep;

use crate::runs::Runs;
use crate::{DAY, ms, rate, state};

/// Notes each run, which takes 5 ms.
fn every_10_ms(jobs: &Jobs<&'static str>, key: &'static str) -> Runs {
    let runs = Runs::new();
    let note = runs.clone();
    let make = move || {
        note.note();
        async { sleep(ms(5)).await }
    };
    assert_eq!(jobs.try_run_by(key, rate(ms(10)), make).unwrap(), None);
    runs
}

#[tokio::test(start_paused = true)]
async fn a_jobs_schedule_is_changed_by_its_key_before_a_run_and_during_one() {
    let wheel = TimingWheel::new();
    let jobs = Jobs::new(&wheel);
    let (before, during) = (every_10_ms(&jobs, "before"), every_10_ms(&jobs, "during"));
    sleep(ms(2)).await;
    assert!(jobs.set_schedule("before", rate(ms(30)).times(2)));
    assert_eq!(jobs.get("before").unwrap().due, Some(before.start + ms(32)));
    assert_eq!(wheel.pending(), 2);
    sleep(ms(10)).await;
    assert_eq!(state(jobs.get("during")), Some(JobState::Running));
    assert!(jobs.set_schedule("during", rate(ms(20)).times(1)));
    sleep(DAY).await;
    assert_eq!((before.began(), during.began(), jobs.len()), (vec![32, 62], vec![10, 32], 0));
}

#[tokio::test(start_paused = true)]
async fn what_has_no_schedule_takes_none_and_asks_none() {
    let jobs = Jobs::new(&TimingWheel::new());
    let runs = every_10_ms(&jobs, "removed");
    jobs.try_run_after("once", ms(20), async {}).unwrap();
    let is_set = |key| jobs.set_schedule(key, |_: Previous| unreachable!("it is asked for nothing"));
    sleep(ms(12)).await;
    assert_eq!(state(jobs.remove("removed")), Some(JobState::Running));
    assert!(!is_set("removed") && !is_set("nobody") && !is_set("once"));
    assert_eq!(jobs.get("once").unwrap().due, Some(runs.start + ms(20)));
    sleep(DAY).await;
    assert_eq!((runs.began(), jobs.len()), (vec![10], 0));
}
