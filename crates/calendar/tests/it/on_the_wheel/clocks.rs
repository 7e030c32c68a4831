//! Clocks that somebody else sets, and that are slow.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use timingwheel::TimingWheel;
use timingwheel_calendar::WallClock;
use tokio::time::Instant;

use super::{at, daily, hours, run, until};

/// A clock that nobody can set by a call: it has to be looked at. Also, by how many milliseconds it is ahead.
pub(crate) fn looked_at(wheel: &TimingWheel, start: Timestamp) -> (WallClock, Arc<AtomicI64>) {
    let (begin, ahead) = (Instant::now(), Arc::new(AtomicI64::new(0)));
    let by = Arc::clone(&ahead);
    let now = move || {
        let ahead = SignedDuration::from_millis(by.load(Ordering::Relaxed));
        start + SignedDuration::try_from(begin.elapsed()).unwrap() + ahead
    };
    (WallClock::from_fn(wheel, now), ahead)
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_somebody_else_sets_is_noticed_within_a_second() {
    let wheel = TimingWheel::new();
    let (clock, ahead) = looked_at(&wheel, at("2026-06-01T00:00:00Z"));
    let (_job, book) = run(&wheel, &clock, clock.schedule(daily("0 9,12 * * *")));
    wheel.sleep(hours(1)).await;
    // To 09:30, past the run.
    ahead.store(8 * 3_600_000 + 1_800_000, Ordering::Relaxed);
    wheel.sleep(Duration::from_millis(1_010)).await;
    let runs = book.runs();
    assert_eq!(runs.len(), 1, "{runs:?}");
    let (scheduled, shown) = runs[0];
    assert_eq!(scheduled, at("2026-06-01T09:00:00Z"));
    assert!(shown < at("2026-06-01T09:30:01.02Z"), "{shown}");
    // Back to 11:00, when it would have shown 11:59:58: the run comes an hour later.
    until(&wheel, &clock, "2026-06-01T11:59:58Z").await;
    ahead.fetch_sub(3_600_000, Ordering::Relaxed);
    wheel.sleep(Duration::from_secs(1_800)).await;
    assert_eq!(book.instants(), [""; 0]);
    wheel.sleep(Duration::from_secs(1_810)).await;
    assert_eq!(book.instants(), ["01 12:00"]);
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_slowed_down_for_long_is_followed() {
    let wheel = TimingWheel::new();
    let begin = Instant::now();
    // 0.05 % slow: 43 seconds a day.
    let clock = WallClock::from_fn(&wheel, move || {
        at("2026-06-01T00:00:00Z") + SignedDuration::try_from(begin.elapsed().mul_f64(0.9995)).unwrap()
    });
    let (_job, book) = run(&wheel, &clock, clock.schedule(daily("0 9 * * *")));
    wheel.sleep(hours(10)).await;
    let runs = book.runs();
    let late = runs[0].1.duration_since(runs[0].0);
    assert!(late.abs() < SignedDuration::from_millis(110), "{late}");
}

#[tokio::test(start_paused = true)]
async fn nobody_looks_at_the_clock_when_no_job_waits_for_it() {
    let wheel = TimingWheel::new();
    let (clock, _ahead) = looked_at(&wheel, at("2026-06-01T00:00:00Z"));
    let (job, _book) = run(&wheel, &clock, clock.schedule(daily("0 9 * * *")));
    let (other, _) = run(&wheel, &clock, clock.schedule(daily("0 9 * * *")));
    assert_eq!(wheel.pending(), 3, "two jobs, and one look for both");
    job.cancel();
    other.cancel();
    wheel.sleep(Duration::from_secs(2)).await;
    assert_eq!(wheel.pending(), 0);
    // And again when one does.
    let (_job, _book) = run(&wheel, &clock, clock.schedule(daily("0 9 * * *")));
    assert_eq!(wheel.pending(), 2);
}
