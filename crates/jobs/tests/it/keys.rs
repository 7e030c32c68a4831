//! Jobs that are addressed by keys.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use timingwheel::TimingWheel;
use timingwheel_jobs::{JobState, Jobs, Schedule};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep};

use crate::{DAY, ms, rate, state};

/// What ran, in order.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<&'static str>>>);

impl Log {
    async fn note(self, name: &'static str) {
        self.0.lock().unwrap().push(name);
    }

    fn take(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_that_is_due_runs_at_once_and_is_not_left_in_the_list() {
    let (jobs, log) = (Jobs::new(&TimingWheel::new()), Log::default());
    jobs.try_run_after(1, Duration::ZERO, log.clone().note("now")).unwrap();
    jobs.try_run_at(2, Instant::now() - DAY, log.clone().note("past")).unwrap();
    assert_eq!(state(jobs.get(&1)), Some(JobState::Running));
    yield_now().await;
    assert_eq!((log.take(), jobs.len()), (vec!["now", "past"], 0));
}

#[tokio::test(start_paused = true)]
async fn a_job_without_a_first_run_removes_the_one_with_its_key() {
    let jobs = Jobs::new(&TimingWheel::new());
    assert_eq!(jobs.try_run_by(1, rate(ms(1)).times(0), || async {}).unwrap(), None);
    jobs.try_run_after(1, DAY, async {}).unwrap();
    assert_eq!(state(jobs.try_run_by(1, |_| None, || async {}).unwrap()), Some(JobState::Pending));
    assert!(jobs.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_job_works_with_the_jobs_it_is_one_of() {
    let (jobs, log) = (Jobs::new(&TimingWheel::new()), Log::default());
    let (inner, note) = (jobs.clone(), log.clone());
    let found = Arc::new(Mutex::new(Vec::new()));
    let find = found.clone();
    jobs.try_run_by("self", rate(ms(10)), move || {
        let (inner, note, find) = (inner.clone(), note.clone(), find.clone());
        async move {
            inner.try_run_after("next", ms(1), note.note("next")).unwrap();
            find.lock().unwrap().push(state(inner.remove(&"self")));
        }
    })
    .unwrap();
    sleep(DAY).await;
    assert_eq!(*found.lock().unwrap(), [Some(JobState::Running)]);
    assert_eq!((log.take(), jobs.len()), (vec!["next"], 0));
}

#[tokio::test(start_paused = true)]
async fn a_panicking_job_leaves_the_list_and_harms_no_other() {
    let wheel = TimingWheel::new();
    let (jobs, log) = (Jobs::new(&wheel), Log::default());
    jobs.try_run_after(1, ms(10), async { panic!("once") }).unwrap();
    jobs.try_run_by(2, rate(ms(10)), || async { panic!("again and again") }).unwrap();
    jobs.try_run_after(3, ms(10), log.clone().note("well")).unwrap();
    let faulty = |_| -> Option<Instant> { panic!("a schedule") };
    jobs.try_run_after(4, DAY, async {}).unwrap();
    assert!(catch_unwind(AssertUnwindSafe(|| jobs.try_run_by(4, faulty, || async {}).is_ok())).is_err());
    let joins = [1, 2, 3, 3].map(|key| jobs.join(&key).unwrap());
    assert!(jobs.join(&5).is_none());
    sleep(ms(11)).await;
    let ends = futures::future::join_all(joins).await;
    assert_eq!(ends, [JobState::Panicked, JobState::Panicked, JobState::Done, JobState::Done]);
    assert_eq!((log.take(), jobs.len(), jobs.panicked()), (vec!["well"], 1, 2));
    assert_eq!(state(jobs.get(&4)), Some(JobState::Pending));
}

#[tokio::test(start_paused = true)]
async fn keys_are_found_by_what_is_borrowed_of_them() {
    let jobs = Jobs::new(&TimingWheel::new());
    jobs.try_run_after(String::from("seven"), DAY, async {}).unwrap();
    assert_eq!(state(jobs.get("seven")), Some(JobState::Pending));
    assert!(jobs.remove("seven").is_some());
    assert!(jobs.get("seven").is_none());
}
