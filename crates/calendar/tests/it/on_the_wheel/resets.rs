//! Runs that a user has moved, and clocks that are set before them.

use std::sync::atomic::Ordering;
use std::time::Duration;

use jiff::SignedDuration;
use timingwheel::TimingWheel;
use timingwheel_calendar::{Combine, Missed, Scheduled};
use timingwheel_jobs::{JobState, Jobs, JobsExt, Schedule};
use tokio::time::Instant;

use super::clocks::looked_at;
use super::{at, clock_at, daily, hours, run, run_for};

#[tokio::test(start_paused = true)]
async fn a_run_that_was_reset_stays_there_when_the_clock_is_set_and_the_next_is_by_the_clock() {
    // Past the run, to before it, and back by so much that the rule begins anew.
    for (set, next) in [
        ("2026-06-02T12:00:00Z", "03 09:00"),
        ("2026-06-02T06:00:00Z", "03 09:00"),
        ("2026-06-01T02:00:00Z", "01 09:00"),
    ] {
        // Earlier than the run would have been, and later.
        for moved in [hours(2), hours(40)] {
            let (wheel, clock) = clock_at("2026-06-01T10:00:00Z");
            let (job, book) = run(&wheel, &clock, clock.schedule(daily("0 9 * * *")));
            assert!(job.reset_after(moved));
            let due = job.info().due;
            clock.set(at(set));
            assert_eq!(
                (job.info().due, wheel.pending()),
                (due, 1),
                "nobody looks as if it were to be moved still"
            );
            wheel.sleep(moved - Duration::from_millis(1)).await;
            assert_eq!(book.instants(), [""; 0], "{set}");
            wheel.sleep(Duration::from_millis(2)).await;
            assert_eq!(book.instants()[0], "02 09:00", "{set}");
            // What waits now is the calendar's.
            clock.set(clock.now() + SignedDuration::from_mins(5));
            wheel.sleep(hours(26)).await;
            let runs = book.runs();
            let late = runs.last().map(|(scheduled, shown)| shown.duration_since(*scheduled).as_secs());
            assert_eq!(late, Some(0), "{set}, {moved:?}: {runs:?}");
            if moved == hours(2) {
                assert_eq!(runs[0].0.strftime("%d %H:%M").to_string(), next);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_was_reset_by_its_key_stays_there_when_somebody_else_sets_the_clock() {
    let wheel = TimingWheel::new();
    let (clock, ahead) = looked_at(&wheel, at("2026-06-01T00:00:00Z"));
    let jobs = Jobs::new(&wheel);
    for key in ["moved", "other"] {
        jobs.try_run_by(key, clock.schedule(daily("0 9 * * *")).times(9), || async {}).unwrap();
    }
    let due = |key: &str| jobs.get(key).unwrap().due.unwrap();
    assert!(jobs.reset_after("moved", hours(5)));
    let moved = due("moved");
    ahead.store(6 * 3_600_000, Ordering::Relaxed);
    wheel.sleep(Duration::from_secs(2)).await;
    assert_eq!(due("moved"), moved);
    let left = due("other") - Instant::now();
    assert!(left < hours(3), "the other is moved: {left:?}");
    wheel.sleep(hours(5)).await;
    let left = due("moved") - Instant::now();
    assert!(left > hours(21) && left < hours(22), "tomorrow at nine: {left:?}");
    // That is the calendar's again.
    ahead.fetch_add(3_600_000, Ordering::Relaxed);
    wheel.sleep(Duration::from_secs(2)).await;
    let left = due("moved") - Instant::now();
    assert!(left > hours(20) && left < hours(21), "{left:?}");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_was_reset_during_the_one_before_stays_there_when_the_clock_is_set() {
    let (wheel, clock) = clock_at("2026-06-01T08:59:50Z");
    let schedule = clock.schedule(daily("0 9 * * *"));
    let (job, _book) = run_for(&wheel, &clock, schedule, Duration::from_secs(60));
    wheel.sleep(Duration::from_secs(20)).await;
    assert_eq!(job.info().state, JobState::Running);
    assert!(job.reset_after(hours(2)));
    let due = Instant::now() + hours(2);
    // During the run, and after it.
    for set in ["2026-06-05T12:00:00Z", "2026-06-01T12:00:00Z"] {
        clock.set(at(set));
        wheel.sleep(Duration::from_secs(60)).await;
        assert_eq!(job.info().due, Some(due), "{set}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_was_reset_comes_also_if_the_clock_is_put_past_the_end_of_the_rule_and_is_the_last() {
    let (wheel, clock) = clock_at("2026-06-01T10:00:00Z");
    let rule = daily("0 9 * * *").until(at("2026-06-03T00:00:00Z"));
    let schedule = clock.schedule(rule).with_missed(Missed::none());
    let (job, book) = run(&wheel, &clock, schedule);
    assert!(job.reset_after(hours(1)));
    clock.set(at("2026-07-01T00:00:00Z"));
    assert_eq!((job.info().state, wheel.pending()), (JobState::Pending, 1));
    assert_eq!(job.await.unwrap(), 1);
    assert_eq!(book.instants(), ["02 09:00"]);
    assert_eq!(clock.now().strftime("%F %R").to_string(), "2026-07-01 01:00");
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_past_the_end_of_the_rule_for_a_moment_during_a_run_does_not_end_the_job() {
    let (wheel, clock) = clock_at("2026-06-01T08:59:00Z");
    let rule = daily("0 9 * * *").until(at("2026-06-03T00:00:00Z"));
    let schedule = clock.schedule(rule).with_missed(Missed::none());
    let (job, book) = run_for(&wheel, &clock, schedule, Duration::from_secs(60));
    wheel.sleep(Duration::from_secs(90)).await;
    assert_eq!(job.info().state, JobState::Running);
    let shown = clock.now();
    clock.set(at("2026-07-01T00:00:00Z"));
    clock.set(shown);
    assert_eq!(job.await.unwrap(), 2);
    assert_eq!(book.instants(), ["01 09:00", "02 09:00"]);
}

/// Asks for which instant its job would have run, as it is dropped.
struct Asks(Scheduled);

impl Drop for Asks {
    fn drop(&mut self) {
        _ = self.0.get();
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_job_runs_may_ask_for_its_instant_as_the_end_of_the_rule_drops_it() {
    let (wheel, clock) = clock_at("2026-06-01T10:00:00Z");
    let rule = daily("0 9 * * *").until(at("2026-06-03T00:00:00Z"));
    let schedule = clock.schedule(rule).with_missed(Missed::none());
    let asks = Asks(schedule.scheduled());
    let job = wheel.run_by(schedule, move || {
        let _owned = &asks;
        async {}
    });
    clock.set(at("2026-07-01T00:00:00Z"));
    assert_eq!(job.await.unwrap(), 0);
}
