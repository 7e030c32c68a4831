//! When repeating jobs run by the schedules that are built in: rates, delays, back-off, limits, jitter and tolerances.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use timingwheel_jobs::{Backoff, FixedDelay, FixedRate, JobState, JobsExt, LastRun, NextRun, Schedule};
use tokio::time::{Instant, MissedTickBehavior, sleep};

use crate::{DAY, Runs, ms, rate, rest};

const BEHAVIORS: [MissedTickBehavior; 3] =
    [MissedTickBehavior::Burst, MissedTickBehavior::Delay, MissedTickBehavior::Skip];

#[tokio::test(start_paused = true)]
async fn missed_runs_are_made_up_put_off_or_left_out_as_an_intervals_ticks() {
    for behavior in BEHAVIORS {
        for _ in 0..20 {
            // Some runs take longer than the period, a few much longer.
            let lengths: Vec<u64> = (0..50)
                .map(|_| if fastrand::u8(..8) == 0 { fastrand::u64(..100) } else { fastrand::u64(..12) })
                .collect();
            let wheel = crate::wheel();
            let rate = rate(ms(10)).with_missed_tick_behavior(behavior);
            let runs = Runs::new();
            runs.job(&wheel, rate.times(50), &lengths).await.unwrap();

            let expected = Runs::new();
            let mut interval = wheel.interval_at(expected.start + ms(10), ms(10));
            interval.set_missed_tick_behavior(behavior);
            for &length in &lengths {
                interval.tick().await;
                expected.note();
                sleep(ms(length)).await;
            }
            assert_eq!(runs.began(), expected.began(), "{behavior:?}, {lengths:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn each_schedule_has_the_runs_that_it_says() {
    let wheel = crate::wheel();
    sleep(ms(200)).await;
    let start = Instant::now();
    let every = || rate(ms(10));
    let at = |millis| FixedRate::new(ms(10)).starting_at(start + ms(millis));
    let past = FixedRate::new(ms(10)).starting_at(start - ms(100));
    let late = FixedRate::new(ms(10)).starting_at(start - ms(95));
    let mut waits = [1, 20, 300].into_iter();
    let listed = move |last: LastRun| Some(last.due + ms(waits.next()?));
    // A schedule, how long its runs take, and when they begin.
    type Row = (Box<dyn Schedule>, &'static [u64], Vec<u128>);
    let rows: [Row; 18] = [
        (Box::new(rest(ms(10)).times(4)), &[3, 100], vec![10, 23, 133, 143]),
        (Box::new(FixedDelay::new(ms(10)).times(2)), &[3], vec![0, 13]),
        (Box::new(FixedRate::new(ms(10)).times(2)), &[3], vec![0, 10]),
        (Box::new(at(0).times(2)), &[], vec![0, 10]),
        (Box::new(at(15).times(2)), &[], vec![15, 25]),
        // What was missed is made up for at once.
        (Box::new(past.times(12)), &[], [vec![0; 11], vec![10]].concat()),
        (Box::new(late.with_missed_tick_behavior(BEHAVIORS[2]).times(2)), &[], vec![0, 5]),
        (Box::new(Backoff::new(ms(100), ms(500)).times(6)), &[], vec![0, 100, 300, 700, 1_200, 1_700]),
        (Box::new(Backoff::new(ms(100), ms(10)).times(3)), &[], vec![0, 10, 20]),
        (Box::new(Backoff::new(ms(10), DAY).starting_after(ms(30)).times(2)), &[], vec![30, 40]),
        (Box::new(every().times(3)), &[], vec![10, 20, 30]),
        (Box::new(every().times(1).times(3)), &[], vec![10]),
        (Box::new(every().times(0)), &[], vec![]),
        // A run that is due at the end counts.
        (Box::new(every().until(start + ms(20))), &[], vec![10, 20]),
        (Box::new(every().until(start + ms(100)).times(2)), &[], vec![10, 20]),
        (Box::new(every().until(start + ms(9))), &[], vec![]),
        (Box::new(listed), &[], vec![1, 21, 321]),
        (Box::new(|_: LastRun| None), &[], vec![]),
    ];
    let jobs = rows.map(|(schedule, lengths, expected)| {
        let runs = Runs::new();
        (runs.job(&wheel, schedule, lengths), runs, expected)
    });
    for (row, (job, runs, expected)) in jobs.into_iter().enumerate() {
        assert!(!expected.is_empty() || job.info().state == JobState::Done);
        assert_eq!((job.await.unwrap(), runs.began()), (expected.len() as u64, expected), "row {row}");
    }
}

/// The waits that a schedule leaves between runs that take no time.
fn waits(mut schedule: impl Schedule, runs: usize) -> Vec<Duration> {
    let start = Instant::now();
    let mut due = schedule.next(LastRun::at(start)).unwrap();
    let wait = |_| {
        let before = due;
        due = schedule.next(LastRun::at(before)).unwrap();
        due - before
    };
    (0..runs).map(wait).collect()
}

#[test]
fn full_jitter_spreads_each_wait_from_zero_to_what_it_would_be_also_at_the_cap() {
    let all: Vec<_> = (0..200).map(|_| waits(Backoff::new(ms(100), ms(400)).with_full_jitter(), 6)).collect();
    for (nth, most) in [100, 200, 400, 400, 400, 400].into_iter().enumerate() {
        let waits = || all.iter().map(|waits| waits[nth]);
        assert!(waits().all(|wait| wait < ms(most)), "wait {nth}");
        // Of 200 by chance none lies in the lowest quarter once in 10^25 times.
        assert!(
            waits().any(|wait| wait < ms(most) / 4) && waits().any(|wait| wait > ms(most) * 3 / 4),
            "wait {nth}"
        );
    }
}

/// Retries whose server says when to come back.
#[tokio::test(start_paused = true)]
async fn limits_bound_runs_also_where_the_run_before_says_when_the_next_is_due() {
    let (wheel, start) = (crate::wheel(), Instant::now());
    let retry = || Backoff::new(ms(1_000), ms(60_000));
    let boxed: Box<dyn Schedule> = Box::new(retry().times(3));
    let answers = [NextRun::After(ms(30_000)), NextRun::At(start + ms(30_000)), NextRun::BySchedule];
    for (answer, late) in answers.into_iter().zip([95_000, 35_000, 3_000]) {
        let run = move || async move { answer };
        assert_eq!(wheel.run_by(retry().times(3), run).await.unwrap(), 3, "{answer:?}");
        let until = retry().until(Instant::now() + ms(late));
        assert!(wheel.run_by(until.times(1_000), run).await.unwrap() >= 3, "{answer:?}");
    }
    assert_eq!(wheel.run_by(boxed, || async { NextRun::After(ms(1)) }).await.unwrap(), 3);
    let until = retry().until(Instant::now() + ms(65_000));
    assert_eq!(wheel.run_by(until, || async { NextRun::After(ms(30_000)) }).await.unwrap(), 3);
    // A user may add a run, and is told the truth.
    let job = Arc::new(wheel.run_by(rest(ms(10)).times(1), || sleep(ms(10))));
    sleep(ms(15)).await;
    assert!(job.reset_after(ms(100)));
    sleep(DAY).await;
    assert_eq!(Arc::into_inner(job).unwrap().await.unwrap(), 2);
}

/// A grid of a second, on which deadlines that lie apart come together.
const SECOND: Duration = ms(1_000);

#[tokio::test(start_paused = true)]
async fn a_fixed_rate_that_may_be_late_neither_drifts_nor_counts_that_as_missed() {
    let runs = Runs::new();
    let missed = Arc::new(Mutex::new(Vec::new()));
    let noted = missed.clone();
    let mut rate = rate(ms(5_003)).with_missed_tick_behavior(MissedTickBehavior::Delay);
    let noting = move |last: LastRun| {
        noted.lock().unwrap().push((last.due, last.missed));
        rate.next(last)
    };
    let job = runs.job(&crate::wheel(), noting.with_tolerance(SECOND).times(100), &[]);
    assert_eq!(job.await.unwrap(), 100);
    let began = runs.began();
    for (n, began) in (1..).zip(&began) {
        assert!((5_003 * n..5_003 * n + 1_000).contains(began), "run {n} at {began}");
    }
    assert!(began.iter().zip(1..).any(|(&began, n)| began > 5_003 * n), "none was late");
    let missed = missed.lock().unwrap();
    assert!(missed.iter().all(|&(_, missed)| !missed));
    assert_eq!(missed[50].0, runs.start + 50 * ms(5_003), "due when the schedule said");
}

#[tokio::test(start_paused = true)]
async fn jobs_that_may_be_late_begin_together_when_they_say_also_if_they_are_moved() {
    for moved in [None, Some(ms(40_000))] {
        let (wheel, runs) = (crate::wheel(), Runs::new());
        let exact = |n| runs.start + moved.unwrap_or(ms(30_000)) + ms(n);
        let job = |n| {
            let job = runs.job(&wheel, rest(ms(30_000 + n)).times(1).with_tolerance(SECOND), &[]);
            assert!(moved.is_none() || job.reset(exact(n)));
            job
        };
        let jobs: Vec<_> = (0..10).map(job).collect();
        let due: Vec<_> = jobs.iter().map(|job| job.info().due.unwrap()).collect();
        assert_eq!(due, (0..10).map(exact).collect::<Vec<_>>());
        sleep(DAY).await;
        let began = runs.began();
        for (began, due) in began.iter().zip(due) {
            let due = (due - runs.start).as_millis();
            assert!((due..due + 1_000).contains(began), "{moved:?}");
        }
        let together: BTreeSet<_> = began.into_iter().collect();
        assert!(together.len() <= 2, "{together:?}");
    }
}

/// Only the wheel's runtime can spawn it, so its timer is set once more.
#[test]
fn a_job_that_a_thread_outside_makes_too_late_keeps_its_time_and_was_missed() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let wheel = {
        let _context = runtime.enter();
        crate::wheel()
    };
    thread::sleep(ms(50));
    let at = Instant::now() - ms(40);
    let told = Arc::new(Mutex::new(Vec::new()));
    let schedule = {
        let told = told.clone();
        move |last: LastRun| {
            told.lock().unwrap().push((last.due, last.missed));
            (told.lock().unwrap().len() == 1).then_some(at)
        }
    };
    let job = wheel.run_by(schedule, || async {});
    assert_eq!(job.info().due, Some(at), "nobody has turned the wheel");
    assert_eq!(runtime.block_on(job).unwrap(), 1);
    assert_eq!(told.lock().unwrap()[1..], [(at, true)]);
}
