//! Back-off, jitter, and runs that say themselves when the next is.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use timingwheel::TimingWheel;
use timingwheel_jobs::{Adjusted, Backoff, JobState, JobsExt, NextRun, Previous, Schedule};
use tokio::time::{Instant, sleep};

use crate::runs::Runs;
use crate::{DAY, ms, rate};

/// The waits that a schedule leaves between runs that take no time.
fn waits(mut schedule: impl Schedule, runs: usize) -> Vec<Duration> {
    let start = Instant::now();
    let mut due = schedule.next(Previous::at(start)).unwrap();
    let wait = |_| {
        let before = due;
        due = schedule.next(Previous::at(before)).unwrap();
        due - before
    };
    (0..runs).map(wait).collect()
}

#[test]
fn a_back_off_grows_by_its_factor_up_to_its_cap_from_the_first_run_on() {
    let millis = |waits: Vec<Duration>| waits.iter().map(Duration::as_millis).collect::<Vec<_>>();
    let twice = Backoff::new(ms(100), ms(1_000));
    assert_eq!(millis(waits(twice.clone(), 6)), [100, 200, 400, 800, 1_000, 1_000]);
    assert_eq!(millis(waits(twice.clone().with_factor(1.0), 3)), [100, 100, 100]);
    assert_eq!(millis(waits(twice.with_factor(1e300), 3)), [100, 1_000, 1_000]);
    assert_eq!(millis(waits(Backoff::new(ms(100), ms(10)), 2)), [10, 10], "a cap below the first wait");
    let start = Instant::now();
    let first = |mut schedule: Backoff| schedule.next(Previous::at(start)).unwrap() - start;
    assert_eq!(first(Backoff::new(ms(100), DAY)), ms(0));
    assert_eq!(first(Backoff::new(ms(100), DAY).starting_after(ms(30))), ms(30));
}

#[test]
#[should_panic(expected = "the factor of a back-off must be finite and at least 1, got 0.5")]
fn a_back_off_that_shrinks_is_refused() {
    _ = Backoff::new(ms(100), DAY).with_factor(0.5);
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

#[test]
fn jitter_makes_runs_later_and_does_not_add_up() {
    let start = Instant::now();
    let mut late: Adjusted<_> = rate(ms(100)).with_jitter(ms(50));
    let mut previous = Previous::at(start);
    let mut lates = Vec::new();
    for run in 1..=200 {
        previous.due = late.next(previous).unwrap();
        lates.push(previous.due - (start + run * ms(100)));
    }
    assert!(lates.iter().all(|&late| late < ms(50)), "{lates:?}");
    assert!(lates.iter().any(|&late| late > ms(25)) && lates.iter().any(|&late| late < ms(25)));
    // A run that was moved is what the rate goes on from.
    previous.due = start + DAY;
    assert!((ms(100)..ms(150)).contains(&(late.next(previous).unwrap() - previous.due)));
}

#[tokio::test(start_paused = true)]
async fn a_run_says_when_the_next_is_and_the_schedule_goes_on_from_there() {
    let (wheel, runs) = (TimingWheel::new(), Runs::new());
    let note = runs.clone();
    let mut answers = [
        NextRun::After(ms(5)),
        NextRun::BySchedule,
        NextRun::At(runs.start + ms(200)),
        NextRun::At(runs.start),
        NextRun::Never,
    ]
    .into_iter();
    // The schedule is asked for two runs, and would have no third.
    let job = wheel.run_by(rate(ms(30)).times(2), move || {
        note.note();
        let answer = answers.next().unwrap();
        async move {
            sleep(ms(10)).await;
            answer
        }
    });
    assert_eq!(job.await.unwrap(), 5);
    assert_eq!(runs.began(), [30, 45, 75, 200, 210]);
}

#[tokio::test(start_paused = true)]
async fn what_the_user_asks_for_during_a_run_comes_before_what_the_run_answers() {
    let wheel = TimingWheel::new();
    let begun: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let (start, note) = (Instant::now(), begun.clone());
    let job = wheel.run_every(ms(100), move || {
        note.lock().unwrap().push(Instant::now());
        async {
            sleep(ms(10)).await;
            NextRun::Never
        }
    });
    sleep(ms(5)).await;
    assert!(job.reset(start + ms(50)));
    sleep(ms(20)).await;
    assert_eq!((job.state(), job.is_finished()), (JobState::Pending, false));
    sleep(ms(100)).await;
    assert_eq!((job.state(), job.is_finished()), (JobState::Done, true));
    assert_eq!(*begun.lock().unwrap(), [start, start + ms(50)]);
    assert_eq!(job.await.unwrap(), 2);
}
