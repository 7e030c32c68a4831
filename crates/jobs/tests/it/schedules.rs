//! When repeating jobs run: their schedules, and what becomes of missed runs.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use timingwheel::TimingWheel;
use timingwheel_jobs::{FixedRate, JobState, Previous, Schedule};
use tokio::time::{Instant, MissedTickBehavior, sleep};

use crate::runs::Runs;
use crate::{ms, rate, rest};

const BEHAVIORS: [MissedTickBehavior; 3] =
    [MissedTickBehavior::Burst, MissedTickBehavior::Delay, MissedTickBehavior::Skip];

#[test]
fn after_a_million_runs_of_10_ms_the_sum_is_exact() {
    let start = Instant::now();
    let mut rate = rate(ms(10));
    let mut due = rate.next(Previous::at(start)).unwrap();
    for run in 1..1_000_000_u64 {
        // Each begins a little late, and takes a while.
        let mut previous = Previous::at(due);
        previous.started = due + Duration::from_micros(run % 5_000);
        previous.ended = previous.started + Duration::from_nanos(run % 977);
        due = rate.next(previous).unwrap();
    }
    assert_eq!(due - start, Duration::from_secs(10_000));
}

#[tokio::test(start_paused = true)]
async fn missed_runs_are_made_up_put_off_or_left_out_as_an_intervals_ticks() {
    for behavior in BEHAVIORS {
        for _ in 0..20 {
            // Some runs take longer than the period, a few much longer.
            let lengths: Vec<u64> = (0..50)
                .map(|_| if fastrand::u8(..8) == 0 { fastrand::u64(..100) } else { fastrand::u64(..12) })
                .collect();
            let wheel = TimingWheel::new();
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
    let wheel = TimingWheel::new();
    sleep(ms(200)).await;
    let start = Instant::now();
    let every = || rate(ms(10));
    let at = |millis| FixedRate::new(ms(10)).starting_at(start + ms(millis));
    let missed = |behavior| every().with_missed_tick_behavior(behavior).times(6);
    let past = FixedRate::new(ms(10)).starting_at(start - ms(100));
    let mut waits = [1, 20, 300].into_iter();
    let listed = move |previous: Previous| Some(previous.due + ms(waits.next()?));
    // A schedule, how long its runs take, and when they begin.
    type Row = (Box<dyn Schedule>, &'static [u64], Vec<u128>);
    let rows: [Row; 15] = [
        (Box::new(missed(BEHAVIORS[0])), &[35], vec![10, 45, 45, 45, 50, 60]),
        (Box::new(missed(BEHAVIORS[1])), &[35], vec![10, 45, 55, 65, 75, 85]),
        (Box::new(missed(BEHAVIORS[2])), &[35], vec![10, 45, 50, 60, 70, 80]),
        (Box::new(rest(ms(10)).times(4)), &[3, 100], vec![10, 23, 133, 143]),
        (Box::new(at(0).times(2)), &[], vec![0, 10]),
        (Box::new(at(15).times(2)), &[], vec![15, 25]),
        // What was missed is made up for at once.
        (Box::new(past.times(12)), &[], [vec![0; 11], vec![10]].concat()),
        (Box::new(every().times(3)), &[], vec![10, 20, 30]),
        (Box::new(every().times(1).times(3)), &[], vec![10]),
        (Box::new(every().times(0)), &[], vec![]),
        // A run that is due at the end counts.
        (Box::new(every().until(start + ms(20))), &[], vec![10, 20]),
        (Box::new(every().until(start + ms(100)).times(2)), &[], vec![10, 20]),
        (Box::new(every().until(start + ms(9))), &[], vec![]),
        (Box::new(listed), &[], vec![1, 21, 321]),
        (Box::new(|_: Previous| None), &[], vec![]),
    ];
    let jobs = rows.map(|(schedule, lengths, expected)| {
        let runs = Runs::new();
        (runs.job(&wheel, schedule, lengths), runs, expected)
    });
    for (row, (job, runs, expected)) in jobs.into_iter().enumerate() {
        assert!(!expected.is_empty() || job.state() == JobState::Done);
        assert_eq!((job.await.unwrap(), runs.began()), (expected.len() as u64, expected), "row {row}");
    }
}

#[test]
#[should_panic(expected = "the period of a fixed rate must be at least 1ns, got 0ns")]
fn a_fixed_rate_with_a_period_of_zero_is_refused() {
    let _ = rate(Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_schedule_sees_when_the_run_was_due_began_and_ended() {
    let start = Instant::now();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let see = seen.clone();
    let schedule = move |previous: Previous| {
        let at = |instant: Instant| (instant - start).as_millis();
        see.lock().unwrap().push((
            at(previous.due),
            at(previous.started),
            at(previous.ended),
            previous.missed,
        ));
        Some(previous.due + ms(10))
    };
    Runs::new().job(&TimingWheel::new(), schedule.times(3), &[30]).await.unwrap();
    sleep(ms(1)).await;
    assert_eq!(*seen.lock().unwrap(), [(0, 0, 0, false), (10, 10, 40, false), (20, 40, 40, true)]);
}

#[tokio::test(start_paused = true)]
async fn a_first_run_that_was_due_in_the_past_was_missed() {
    let wheel = TimingWheel::new();
    sleep(ms(200)).await;
    let runs = Runs::new();
    let past = FixedRate::new(ms(10)).starting_at(runs.start - ms(95));
    runs.job(&wheel, past.with_missed_tick_behavior(BEHAVIORS[2]).times(2), &[]).await.unwrap();
    assert_eq!(runs.began(), [0, 5]);
}
