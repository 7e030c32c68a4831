//! Jobs that may be late.

use timingwheel::{TimingWheel, Tolerance};
use timingwheel_jobs::{FixedDelay, FixedRate, Jobs, JobsExt, Previous, Schedule};
use tokio::time::{Instant, MissedTickBehavior, sleep};

use crate::runs::Runs;
use crate::{DAY, ms};

/// A grid of a second, on which deadlines that lie apart come together.
const SECOND: Tolerance = Tolerance::time(ms(1_000));

fn is_within(late: std::time::Duration) -> bool {
    late < ms(1_000)
}

#[tokio::test(start_paused = true)]
async fn jobs_that_may_be_late_begin_together() {
    let wheel = TimingWheel::new();
    let start = Instant::now();
    let jobs: Vec<_> = (0..10)
        .map(|n| wheel.run_after(ms(30_000 + n), async { Instant::now() }).with_tolerance(SECOND))
        .collect();
    let due: Vec<Instant> = jobs.iter().map(|job| job.due().unwrap()).collect();
    let mut began: Vec<Instant> = Vec::new();
    for ((n, job), due) in (0..).zip(jobs).zip(due) {
        let at = job.await.unwrap();
        assert_eq!(at, due, "it says when");
        assert!(at >= start + ms(30_000 + n) && is_within(at - (start + ms(30_000 + n))), "{n}");
        began.push(at);
    }
    began.dedup();
    assert!(began.len() <= 2, "{began:?}");
}

#[tokio::test(start_paused = true)]
async fn a_reset_keeps_the_tolerance_of_a_job() {
    let wheel = TimingWheel::new();
    let start = Instant::now();
    let jobs: Vec<_> = [30_001, 30_501, 31_001]
        .map(|_| wheel.run_after(ms(7), async { Instant::now() }).with_tolerance(SECOND))
        .into();
    for (job, after) in jobs.iter().zip([30_001, 30_002, 30_003]) {
        assert!(job.reset_after(ms(after)));
        let late = job.due().unwrap() - (start + ms(after));
        assert!(is_within(late));
    }
    let due: std::collections::BTreeSet<_> = jobs.iter().map(timingwheel_jobs::Job::due).collect();
    assert!(due.len() <= 2, "{due:?}");
    for (job, after) in jobs.into_iter().zip([30_001, 30_002, 30_003]) {
        let at = job.await.unwrap();
        assert!(at >= start + ms(after) && is_within(at - (start + ms(after))));
    }
}

#[tokio::test(start_paused = true)]
async fn a_fixed_rate_that_may_be_late_neither_drifts_nor_counts_that_as_missed() {
    let runs = Runs::new();
    let missed = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let noted = missed.clone();
    let mut rate = FixedRate::new(ms(5_003))
        .starting_after(ms(5_003))
        .with_missed_tick_behavior(MissedTickBehavior::Delay);
    let noting = move |previous: Previous| {
        noted.lock().unwrap().push((previous.due, previous.missed));
        rate.next(previous)
    };
    let job = runs.job(&TimingWheel::new(), noting.with_tolerance(SECOND).times(100), &[]);
    assert_eq!(job.await.unwrap(), 100);
    let began = runs.began();
    assert_eq!(began.len(), 100);
    for (n, began) in (1..).zip(&began) {
        assert!((5_003 * n..5_003 * n + 1_000).contains(began), "run {n} at {began}");
    }
    assert!(began.iter().zip(1..).any(|(&began, n)| began > 5_003 * n), "none was late");
    let missed = missed.lock().unwrap();
    assert!(missed.iter().all(|&(_, missed)| !missed));
    assert_eq!(missed[50].0, runs.start + 50 * ms(5_003), "due when the schedule said");
}

#[tokio::test(start_paused = true)]
async fn a_schedules_tolerance_counts_for_resets_and_for_a_job_that_goes_over_to_it() {
    let (wheel, runs) = (TimingWheel::new(), Runs::new());
    let exact = |after: u64| runs.start + ms(after);
    let job = runs.job(&wheel, FixedDelay::new(DAY).starting_after(ms(10_001)), &[]);
    assert_eq!(job.due(), Some(exact(10_001)));
    assert!(
        job.set_schedule(
            FixedDelay::new(DAY).starting_after(ms(20_001)).with_tolerance(Tolerance::time(DAY))
        )
    );
    assert!(job.due().unwrap() > exact(30_001));
    assert!(job.set_schedule(FixedDelay::new(DAY).starting_after(ms(20_001)).with_tolerance(SECOND)));
    let late = job.due().unwrap() - exact(20_001);
    assert!(is_within(late));
    assert!(job.reset(exact(40_001)));
    let due = job.due().unwrap();
    assert!(due > exact(40_001) && is_within(due - exact(40_001)), "{:?}", due - runs.start);
    sleep(DAY).await;
    assert_eq!(runs.began(), [(due - runs.start).as_millis()]);
}

#[tokio::test(start_paused = true)]
async fn jobs_by_keys_have_the_tolerance_of_the_handle_that_adds_and_moves_them() {
    let wheel = TimingWheel::new();
    let exact = Jobs::new(&wheel);
    let late = exact.clone().with_tolerance(SECOND);
    let start = Instant::now();
    let due = |key: &str| exact.get(key).unwrap().due.unwrap() - start;
    let is_late = |key: &str, after| due(key) > ms(after) && is_within(due(key) - ms(after));
    late.try_run_after("once", ms(10_001), async {}).unwrap();
    late.try_run_every_at("again", start + ms(10_001), ms(10_001), || async {}).unwrap();
    late.try_run_by("own", FixedRate::new(ms(10)).starting_after(ms(10_001)), || async {}).unwrap();
    exact.try_run_after("exact", ms(10_001), async {}).unwrap();
    assert!(is_late("once", 10_001) && is_late("again", 10_001));
    assert_eq!((due("own"), due("exact")), (ms(10_001), ms(10_001)));
    for key in ["once", "again", "exact"] {
        assert!(late.clone().reset_after(key, ms(20_003)));
        assert!(is_late(key, 20_003), "{key}");
    }
    assert!(exact.reset_after("once", ms(30_003)) && exact.reset_after("again", ms(30_003)));
    assert_eq!(due("once"), ms(30_003));
    assert!(is_late("again", 30_003), "its schedule says so");
}

/// The wheel is turned once for many jobs, also for those that were moved, and for those with a place of their own.
#[tokio::test(start_paused = true)]
async fn jobs_that_may_be_late_keep_their_places_in_a_bound() {
    let wheel = TimingWheel::builder().max_pending(3).build().unwrap();
    let job = wheel.run_by(FixedRate::new(ms(3_001)).with_tolerance(SECOND).times(20), || sleep(ms(3)));
    let once = wheel.try_run_after(ms(2_001), async {}).unwrap().with_tolerance(SECOND);
    assert!(once.reset_after(ms(5_001)) && once.reset_after(ms(1_001)));
    let others: Vec<_> = std::iter::from_fn(|| wheel.try_sleep(DAY).ok()).collect();
    assert_eq!(others.len(), 2, "a job that runs has no place");
    drop(others);
    once.await.unwrap();
    assert_eq!(job.await.unwrap(), 20);
    let others: Vec<_> = std::iter::from_fn(|| wheel.try_sleep(DAY).ok()).collect();
    assert_eq!(others.len(), 3, "both have given theirs back");
}
