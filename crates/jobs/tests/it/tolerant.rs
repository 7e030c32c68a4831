//! Jobs that may be late.

use timingwheel::{TimingWheel, Tolerance};
use timingwheel_jobs::{FixedDelay, FixedRate, Previous, Schedule};
use tokio::time::{MissedTickBehavior, sleep};

use crate::runs::Runs;
use crate::{DAY, ms, rest};

/// A grid of a second, on which deadlines that lie apart come together.
const SECOND: Tolerance = Tolerance::time(ms(1_000));

fn is_within(late: std::time::Duration) -> bool {
    late < ms(1_000)
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
async fn jobs_that_may_be_late_begin_together_when_they_say() {
    let (wheel, runs) = (TimingWheel::new(), Runs::new());
    let jobs: Vec<_> = (0..10)
        .map(|n| runs.job(&wheel, rest(ms(30_000 + n)).times(1).with_tolerance(SECOND), &[]))
        .collect();
    let due: Vec<_> = jobs.iter().map(|job| job.due().unwrap() - runs.start).collect();
    assert!((0..).zip(&due).all(|(n, &due)| due >= ms(30_000 + n) && is_within(due - ms(30_000 + n))));
    sleep(DAY).await;
    assert_eq!(runs.began(), due.iter().map(std::time::Duration::as_millis).collect::<Vec<_>>());
    let together: std::collections::BTreeSet<_> = due.into_iter().collect();
    assert!(together.len() <= 2, "{together:?}");
}

#[tokio::test(start_paused = true)]
async fn a_schedules_tolerance_counts_for_resets() {
    let (wheel, runs) = (TimingWheel::new(), Runs::new());
    let exact = |after: u64| runs.start + ms(after);
    let late = FixedDelay::new(DAY).starting_after(ms(20_001)).with_tolerance(SECOND);
    let job = runs.job(&wheel, late, &[]);
    let late = job.due().unwrap() - exact(20_001);
    assert!(is_within(late));
    assert!(job.reset(exact(40_001)));
    let due = job.due().unwrap();
    assert!(due > exact(40_001) && is_within(due - exact(40_001)), "{:?}", due - runs.start);
    sleep(DAY).await;
    assert_eq!(runs.began(), [(due - runs.start).as_millis()]);
}
