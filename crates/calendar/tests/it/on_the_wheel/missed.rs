//! Missed runs, by each policy.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::SignedDuration;
use timingwheel::TimingWheel;
use timingwheel_calendar::{Missed, WallClock};
use timingwheel_jobs::JobsExt;

use super::{at, clock_at, daily, hours, run, run_for};

/// Four days that nobody was there: runs of four mornings were missed.
async fn after_an_outage(missed: Missed) -> Vec<String> {
    let (wheel, clock) = clock_at("2026-06-05T12:00:00Z");
    let schedule = clock.schedule(daily("0 9 * * *")).since(at("2026-06-01T09:00:00Z")).with_missed(missed);
    let (_job, book) = run(&wheel, &clock, schedule);
    wheel.sleep(hours(24)).await;
    book.instants()
}

#[tokio::test(start_paused = true)]
async fn missed_runs_follow_their_policy_and_have_a_bound() {
    assert_eq!(after_an_outage(Missed::once()).await, ["02 09:00", "06 09:00"]);
    assert_eq!(after_an_outage(Missed::none()).await, ["06 09:00"]);
    assert_eq!(after_an_outage(Missed::each(3)).await, ["02 09:00", "03 09:00", "04 09:00", "06 09:00"]);
    assert_eq!(
        after_an_outage(Missed::each(9)).await,
        ["02 09:00", "03 09:00", "04 09:00", "05 09:00", "06 09:00"]
    );
    let two_days = SignedDuration::from_hours(48);
    assert_eq!(
        after_an_outage(Missed::each(9).none_older_than(two_days)).await,
        ["04 09:00", "05 09:00", "06 09:00"]
    );
    assert_eq!(after_an_outage(Missed::once().none_older_than(two_days)).await, ["04 09:00", "06 09:00"]);
    let an_hour = SignedDuration::from_hours(1);
    assert_eq!(after_an_outage(Missed::once().none_older_than(an_hour)).await, ["06 09:00"]);
}

#[tokio::test(start_paused = true)]
async fn a_rule_by_the_second_that_was_away_for_a_year_does_not_flood() {
    let (wheel, clock) = clock_at("2026-06-01T00:00:00Z");
    let (_job, book) = run(&wheel, &clock, clock.schedule(daily("* * * * * *")).with_missed(Missed::each(5)));
    wheel.sleep(Duration::from_millis(500)).await;
    clock.set(at("2027-06-01T00:00:00.5Z"));
    wheel.sleep(Duration::from_millis(400)).await;
    assert_eq!(book.runs().len(), 5);
    wheel.sleep(Duration::from_secs(10)).await;
    assert_eq!(book.runs().len(), 10);
}

#[tokio::test(start_paused = true)]
async fn runs_that_take_too_long_are_missed_by_the_next() {
    let (wheel, clock) = clock_at("2026-06-01T00:00:00Z");
    let schedule = clock.schedule(daily("* * * * *")).with_missed(Missed::none());
    let (_job, book) = run_for(&wheel, &clock, schedule, Duration::from_secs(150));
    wheel.sleep(Duration::from_secs(601)).await;
    assert_eq!(book.instants(), ["01 00:01", "01 00:04", "01 00:07", "01 00:10"]);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_late_by_less_than_a_second_is_not_missed() {
    let (wheel, clock) = clock_at("2026-06-01T08:59:00Z");
    let schedule = clock.schedule(daily("0 9 * * *")).with_missed(Missed::none());
    let (_job, book) = run(&wheel, &clock, schedule);
    clock.set(at("2026-06-01T09:00:00.9Z"));
    wheel.sleep(Duration::from_millis(10)).await;
    assert_eq!(book.instants(), ["01 09:00"]);
}

#[tokio::test(start_paused = true)]
async fn a_pending_run_that_the_wheel_calls_late_follows_the_policy_too() {
    // Such as where the process was stopped over the due time: nobody looks at the clock in between.
    let late_by = async |missed: Missed| {
        let wheel = TimingWheel::new();
        let (ahead, start) = (Arc::new(Mutex::new(SignedDuration::ZERO)), at("2026-06-01T08:59:59.5Z"));
        let (shown, began) = (Arc::clone(&ahead), tokio::time::Instant::now());
        let clock = WallClock::from_fn(&wheel, move || {
            start + SignedDuration::try_from(began.elapsed()).unwrap() + *shown.lock().unwrap()
        });
        let schedule = clock.schedule(daily("0 9 * * *")).with_missed(missed);
        let runs = Arc::new(Mutex::new(0));
        let count = Arc::clone(&runs);
        let _job = wheel.run_by(schedule, move || {
            *count.lock().unwrap() += 1;
            std::future::ready(())
        });
        wheel.sleep(Duration::from_millis(400)).await;
        *ahead.lock().unwrap() = SignedDuration::from_secs(6);
        wheel.sleep(Duration::from_millis(300)).await;
        *runs.lock().unwrap()
    };
    assert_eq!(late_by(Missed::once()).await, 1);
    assert_eq!(late_by(Missed::none()).await, 0);
    assert_eq!(late_by(Missed::once().none_older_than(SignedDuration::from_secs(5))).await, 0);
    assert_eq!(late_by(Missed::once().none_older_than(SignedDuration::from_secs(60))).await, 1);
}
