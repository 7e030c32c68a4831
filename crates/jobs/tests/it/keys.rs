//! Jobs that are addressed by keys.

use std::collections::BTreeMap;
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
async fn jobs_run_once_so_many_times_or_for_ever_and_leave_the_list_when_they_are_over() {
    let (jobs, log) = (Jobs::new(&TimingWheel::new()), Log::default());
    let note = |name| {
        let log = log.clone();
        move || log.clone().note(name)
    };
    let start = Instant::now();
    assert_eq!(jobs.try_run_after("once", ms(15), log.clone().note("once")).unwrap(), None);
    assert_eq!(jobs.try_run_at("then", start + ms(16), log.clone().note("then")).unwrap(), None);
    assert_eq!(jobs.try_run_by("twice", rate(ms(10)).times(2), note("twice")).unwrap(), None);
    assert_eq!(jobs.try_run_by("ever", rate(ms(30)), note("ever")).unwrap(), None);
    assert_eq!(jobs.len(), 4);
    assert_eq!(jobs.get(&"ever").unwrap().due, Some(start + ms(30)));
    let due: BTreeMap<_, _> =
        jobs.list().into_iter().map(|(key, info)| (key, info.due.unwrap() - start)).collect();
    assert_eq!(due, [("ever", ms(30)), ("once", ms(15)), ("then", ms(16)), ("twice", ms(10))].into());
    sleep(ms(65)).await;
    assert_eq!(log.take(), ["twice", "once", "then", "twice", "ever", "ever"]);
    assert_eq!((jobs.len(), jobs.is_empty()), (1, false));
    assert_eq!(jobs.get(&"once"), None);
    assert_eq!(jobs.get(&"ever").unwrap().due, Some(start + ms(90)));
}

#[tokio::test(start_paused = true)]
async fn a_job_replaces_the_one_with_its_key_and_tells_what_that_was() {
    let wheel = TimingWheel::new();
    let (jobs, log) = (Jobs::new(&wheel), Log::default());
    let start = Instant::now();
    jobs.try_run_after(7, ms(10), log.clone().note("old")).unwrap();
    jobs.try_run_after(8, ms(30), log.clone().note("other")).unwrap();
    let replaced = jobs.try_run_after(7, ms(20), log.clone().note("new")).unwrap().unwrap();
    assert_eq!((replaced.state, replaced.due), (JobState::Pending, Some(start + ms(10))));
    assert_eq!((jobs.len(), wheel.pending()), (2, 2));
    sleep(DAY).await;
    assert_eq!(log.take(), ["new", "other"]);
}

#[tokio::test(start_paused = true)]
async fn a_job_that_is_removed_or_replaced_during_its_run_goes_on_to_the_end_of_it_and_no_further() {
    let (jobs, log) = (Jobs::new(&TimingWheel::new()), Log::default());
    let slow = || {
        let log = log.clone();
        move || {
            let log = log.clone();
            async move {
                sleep(ms(10)).await;
                log.note("slow").await;
            }
        }
    };
    jobs.try_run_by("removed", rate(ms(10)), slow()).unwrap();
    jobs.try_run_by("replaced", rate(ms(10)), slow()).unwrap();
    jobs.try_run_after("once", ms(10), slow()()).unwrap();
    jobs.try_run_after("once, replaced", ms(10), slow()()).unwrap();
    sleep(ms(15)).await;
    assert_eq!(state(jobs.remove(&"removed")), Some(JobState::Running));
    assert_eq!(state(jobs.remove(&"once")), Some(JobState::Running));
    assert_eq!(jobs.remove(&"removed"), None);
    let new = log.clone().note("new");
    assert_eq!(state(jobs.try_run_after("replaced", ms(1), new).unwrap()), Some(JobState::Running));
    // The new job does not wait for the old one's run, whose end does not take it out of the list.
    sleep(ms(3)).await;
    assert_eq!(log.take(), ["new"]);
    jobs.try_run_after("replaced", DAY, async {}).unwrap();
    let replaced = jobs.try_run_after("once, replaced", DAY, async {}).unwrap();
    assert_eq!(state(replaced), Some(JobState::Running));
    sleep(ms(1_000)).await;
    assert_eq!(log.take(), ["slow", "slow", "slow", "slow"]);
    assert_eq!(jobs.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_removed_job_is_dropped_at_once() {
    let wheel = TimingWheel::new();
    let jobs = Jobs::new(&wheel);
    let owned = Arc::new(());
    let held = owned.clone();
    jobs.try_run_after(owned.clone(), DAY, async move { drop(held) }).unwrap();
    assert_eq!(Arc::strong_count(&owned), 3);
    let removed = jobs.remove(&owned).unwrap();
    assert_eq!((removed.state, Arc::strong_count(&owned)), (JobState::Pending, 1));
    assert_eq!((wheel.pending(), jobs.len()), (0, 0));
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
    sleep(ms(11)).await;
    assert_eq!((log.take(), jobs.len(), jobs.panicked()), (vec!["well"], 1, 2));
    assert_eq!(state(jobs.get(&4)), Some(JobState::Pending));
}

#[tokio::test(start_paused = true)]
async fn over_the_bound_a_job_is_refused_and_all_stays_as_it_was() {
    let wheel = TimingWheel::builder().max_pending(2).build().unwrap();
    let (jobs, log) = (Jobs::new(&wheel), Log::default());
    jobs.try_run_after(1, ms(10), log.clone().note("first")).unwrap();
    jobs.try_run_after(2, ms(10), log.clone().note("second")).unwrap();
    for key in [3, 4] {
        let refused = jobs.try_run_after(key, ms(20), log.clone().note("refused")).unwrap_err();
        assert_eq!(
            refused.to_string(),
            format!("the job could not run: the wheel {:?} is full (max_pending = 2)", wheel.name())
        );
        refused.into_inner().await;
    }
    assert_eq!(log.take(), ["refused", "refused"]);
    assert_eq!((jobs.len(), wheel.pending()), (2, 2));
    assert!(jobs.remove(&1).is_some());
    jobs.try_run_after(3, ms(20), log.clone().note("third")).unwrap();
    sleep(DAY).await;
    assert_eq!(log.take(), ["second", "third"]);
}

#[tokio::test(start_paused = true)]
async fn a_stop_tells_of_every_job_that_has_not_run_and_takes_no_more() {
    let wheel = TimingWheel::new();
    let (jobs, log) = (Jobs::new(&wheel), Log::default());
    let start = Instant::now();
    for key in 0..1_000_u64 {
        jobs.try_run_after(key, ms(key + 1), log.clone().note("ran")).unwrap();
    }
    jobs.try_run_after(1_000, ms(1), async { sleep(DAY).await }).unwrap();
    jobs.try_run_by(1_001, rate(ms(1)), || async {}).unwrap();
    sleep(ms(500)).await;
    for _ in 0..10 {
        yield_now().await;
    }
    let ended = jobs.shutdown(ms(1)).await;
    assert_eq!((ended.finished, ended.aborted), (0, 1));
    let mut stopped = ended.not_begun;
    stopped.sort_by_key(|job| job.key);
    let ran = log.take().len() as u64;
    assert_eq!(ran, 500);
    assert_eq!(stopped.len(), 501);
    for (job, expected) in stopped.iter().zip(500..1_000) {
        let (key, info) = (job.key, job.info);
        assert_eq!((key, info.state, info.due), (expected, JobState::Pending, Some(start + ms(key + 1))));
    }
    assert_eq!((stopped[500].key, stopped[500].info.state), (1_001, JobState::Pending));
    yield_now().await;
    assert_eq!((jobs.len(), wheel.pending()), (0, 0));
    assert!(jobs.shutdown(ms(1)).await.not_begun.is_empty());
    let refused = jobs.try_run_after(1, ms(1), async {}).unwrap_err();
    assert!(refused.error().is_shutdown());
    assert_eq!(refused.to_string(), "the jobs were shut down, and take no more");
    sleep(DAY).await;
    assert_eq!(log.take().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn keys_are_found_by_what_is_borrowed_of_them() {
    let jobs = Jobs::new(&TimingWheel::new());
    jobs.try_run_after(String::from("seven"), DAY, async {}).unwrap();
    assert_eq!(state(jobs.get("seven")), Some(JobState::Pending));
    assert!(jobs.remove("seven").is_some());
    assert!(jobs.get("seven").is_none());
}
