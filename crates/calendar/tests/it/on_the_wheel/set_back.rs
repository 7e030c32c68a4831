//! Clocks that are set back: what comes again, and what must not be lost.

use std::time::Duration;

use timingwheel::TimingWheel;
use timingwheel_calendar::{Combine, Missed, Periodic, WallClock};
use timingwheel_jobs::JobState;

use super::{at, clock_at, daily, hours, run, run_for, until};

#[tokio::test(start_paused = true)]
async fn a_clock_that_was_wrong_for_a_moment_during_a_run_leaves_nothing_out() {
    let (wheel, clock) = clock_at("2026-06-01T08:00:00Z");
    let schedule = clock.schedule(daily("0 9 * * *"));
    let (job, book) = run_for(&wheel, &clock, schedule, Duration::from_secs(10));
    clock.set(at("2026-06-11T08:00:05Z"));
    wheel.sleep(Duration::from_secs(5)).await;
    assert_eq!(job.info().state, JobState::Running);
    clock.set(at("2026-06-01T08:01:00Z"));
    until(&wheel, &clock, "2026-06-03T00:00:00Z").await;
    assert_eq!(book.instants(), ["01 09:00", "01 09:00", "02 09:00"]);
}

#[tokio::test(start_paused = true)]
async fn one_run_for_all_that_were_missed_stays_one_if_the_clock_is_set_back_meanwhile() {
    let (wheel, clock) = clock_at("2026-06-01T08:00:00Z");
    let (_job, book) = run(&wheel, &clock, clock.schedule(daily("0 9 * * *")));
    clock.set(at("2026-06-11T08:00:00Z"));
    wheel.sleep(Duration::from_secs(1)).await;
    clock.set(at("2026-06-11T07:00:00Z"));
    until(&wheel, &clock, "2026-06-12T00:00:00Z").await;
    assert_eq!(book.instants(), ["01 09:00", "11 09:00"]);
}

#[tokio::test(start_paused = true)]
async fn a_job_that_is_reset_to_run_now_does_not_run_again_on_time() {
    let (wheel, clock) = clock_at("2026-06-01T10:00:00Z");
    let (job, book) = run(&wheel, &clock, clock.schedule(daily("0 9 * * *")));
    assert!(job.reset(tokio::time::Instant::now()));
    wheel.sleep(Duration::from_secs(1)).await;
    assert_eq!(book.instants(), ["02 09:00"]);
    // The clock is put right by a little, which is no reason to begin anew.
    clock.set(at("2026-06-01T09:59:00Z"));
    until(&wheel, &clock, "2026-06-03T12:00:00Z").await;
    assert_eq!(book.instants(), ["03 09:00"]);
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_back_by_more_than_three_hours_has_the_day_again_long_after_the_run() {
    let (wheel, clock) = clock_at("2026-06-01T12:00:00Z");
    let (_job, book) = run(&wheel, &clock, clock.schedule(daily("0 9 * * *")));
    until(&wheel, &clock, "2026-06-02T20:00:00Z").await;
    clock.set(at("2026-06-02T08:00:00Z"));
    until(&wheel, &clock, "2026-06-03T08:00:00Z").await;
    assert_eq!(book.instants(), ["02 09:00", "02 09:00"]);
    // By less, and it does not.
    until(&wheel, &clock, "2026-06-03T11:00:00Z").await;
    clock.set(at("2026-06-03T08:30:00Z"));
    until(&wheel, &clock, "2026-06-04T08:00:00Z").await;
    assert_eq!(book.instants(), ["03 09:00"]);
}

#[tokio::test(start_paused = true)]
async fn what_never_ran_is_not_lost_by_a_clock_that_is_set_back_a_little() {
    let (wheel, clock) = clock_at("2026-06-01T10:00:00Z");
    let (_job, book) = run(&wheel, &clock, clock.schedule(daily("0 9 * * *")));
    clock.set(at("2026-06-01T08:00:00Z"));
    wheel.sleep(hours(2)).await;
    assert_eq!(book.instants(), ["01 09:00"], "the job is new");

    for missed in [Missed::none(), Missed::once().none_older_than(jiff::SignedDuration::from_mins(30))] {
        let clock = WallClock::starting_at(&wheel, at("2026-06-01T08:00:00Z"));
        let (_job, book) = run(&wheel, &clock, clock.schedule(daily("0 9 * * *")).with_missed(missed));
        clock.set(at("2026-06-01T10:00:00Z"));
        wheel.sleep(Duration::from_millis(10)).await;
        assert_eq!(book.instants(), [""; 0], "left out");
        clock.set(at("2026-06-01T08:00:00Z"));
        wheel.sleep(hours(2)).await;
        assert_eq!(book.instants(), ["01 09:00"], "{missed:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_interval_goes_by_the_new_time_and_a_list_of_times_waits() {
    let wheel = TimingWheel::new();
    let start = at("2026-06-01T09:59:30Z");
    // Its instants, and how many of them there are in the ten minutes after the clock was set back by two hours.
    let runs = async |schedule: fn(&WallClock) -> timingwheel_calendar::WallSchedule| {
        let clock = WallClock::starting_at(&wheel, start);
        let (_job, book) = run(&wheel, &clock, schedule(&clock));
        wheel.sleep(Duration::from_secs(60)).await;
        assert_eq!(book.instants(), ["01 10:00"]);
        clock.set(at("2026-06-01T08:00:30Z"));
        wheel.sleep(Duration::from_secs(160)).await;
        book.instants()
    };
    let by_new_time = ["01 08:01", "01 08:02", "01 08:03"];
    assert_eq!(runs(|clock| clock.schedule(daily("* * * * *"))).await, by_new_time);
    assert_eq!(
        runs(|clock| clock.schedule(Periodic::minutes(1, at("2026-01-01T00:00:00Z")))).await,
        by_new_time
    );
    let plan = |clock: &WallClock| {
        let end = at("2027-01-01T00:00:00Z");
        clock.schedule(
            daily("* * * * *")
                .until(end)
                .except_at([end])
                .except_days_of(daily("0 0 25 12 *"), jiff::tz::TimeZone::UTC),
        )
    };
    assert_eq!(runs(plan).await, by_new_time);
    // The same minutes, as fixed times.
    assert_eq!(runs(|clock| clock.schedule(daily("0-59 0-23 * * *"))).await, [""; 0]);
    assert_eq!(runs(|clock| clock.schedule(daily("* * * * *").or(daily("0 10 * * *")))).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn an_interval_that_is_set_back_by_less_than_a_period_does_not_run_twice() {
    let (wheel, clock) = clock_at("2026-06-01T09:59:30Z");
    let (_job, book) = run(&wheel, &clock, clock.schedule(daily("* * * * *")));
    wheel.sleep(Duration::from_secs(31)).await;
    clock.set(at("2026-06-01T09:59:50Z"));
    wheel.sleep(Duration::from_secs(71)).await;
    assert_eq!(book.instants(), ["01 10:00", "01 10:01"]);
}
