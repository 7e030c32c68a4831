//! When repeating jobs run: their schedules, and what becomes of missed runs.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use timingwheel::TimingWheel;
use timingwheel_jobs::{JobState, Jobs, JobsExt, PendingRun, Previous, Replanned, Schedule};
use tokio::task::yield_now;
use tokio::time::{Instant, MissedTickBehavior, sleep};

use crate::runs::Runs;
use crate::{DAY, ms, rate, rest};

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
async fn a_fixed_rate_does_not_drift_whatever_the_runs_take() {
    let wheel = TimingWheel::new();
    let start = Instant::now();
    let runs = Runs::new();
    let lengths: Vec<u64> = (0..10_000).map(|run| run * 7 % 10).collect();
    let number = runs.job(&wheel, rate(ms(10)).times(10_000), &lengths).await.unwrap();
    assert_eq!(number, 10_000);
    assert_eq!(start.elapsed(), ms(10 * 10_000 + lengths[9_999]));
    assert!(runs.began().iter().zip(1..).all(|(&at, run)| at == 10 * run));
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
async fn a_run_that_takes_longer_than_the_period_is_followed_by_the_next_at_its_end() {
    for (behavior, began) in BEHAVIORS.into_iter().zip([
        [10, 45, 45, 45, 50, 60],
        [10, 45, 55, 65, 75, 85],
        [10, 45, 50, 60, 70, 80],
    ]) {
        let runs = Runs::new();
        let rate = rate(ms(10)).with_missed_tick_behavior(behavior);
        runs.job(&TimingWheel::new(), rate.times(6), &[35]).await.unwrap();
        assert_eq!(runs.began(), began, "{behavior:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_fixed_delay_of_zero_lets_others_run_in_between() {
    let start = Instant::now();
    let work = TimingWheel::new().run_by(rest(Duration::ZERO), || async {});
    for _ in 0..100 {
        yield_now().await;
    }
    work.cancel();
    assert!(work.await.unwrap_err().is_cancelled());
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[test]
#[should_panic(expected = "the period of a fixed rate must be at least 1ns, got 0ns")]
fn a_fixed_rate_with_a_period_of_zero_is_refused() {
    let _ = rate(Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_schedule_ends_by_number_by_instant_and_by_itself() {
    let wheel = TimingWheel::new();
    let rate = || rate(ms(10));
    let end = Instant::now() + ms(40);
    assert_eq!(wheel.run_by(rate().times(3), || async {}).await.unwrap(), 3);
    // The fourth run is due at the end, which counts.
    assert_eq!(wheel.run_by(rate().until(end), || async {}).await.unwrap(), 1);
    assert_eq!(wheel.run_by(rate().until(Instant::now() + ms(100)).times(7), || async {}).await.unwrap(), 7);
    for none in [wheel.run_by(rate().times(0), || async {}), wheel.run_by(rate().until(end), || async {})] {
        assert_eq!(none.state(), JobState::Done);
        assert_eq!(none.await.unwrap(), 0);
    }
    let mut waits = [1, 20, 300].into_iter();
    let runs = Runs::new();
    let listed = move |previous: Previous| Some(previous.due + ms(waits.next()?));
    assert_eq!(runs.job(&wheel, listed, &[]).await.unwrap(), 3);
    assert_eq!(runs.began(), [1, 21, 321]);
}

#[tokio::test(start_paused = true)]
async fn a_schedule_chosen_at_run_time_is_a_schedule() {
    let wheel = TimingWheel::new();
    for number in 1..3 {
        let schedule: Box<dyn Schedule> =
            if number == 1 { Box::new(rate(ms(1)).times(1)) } else { Box::new(rest(ms(1)).times(2)) };
        assert_eq!(wheel.run_by(schedule, || async {}).await.unwrap(), number);
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_run_is_when_the_schedule_says_also_at_once_or_in_the_past() {
    let wheel = TimingWheel::new();
    sleep(ms(100)).await;
    let runs = Runs::new();
    let at = |instant| rate(ms(10)).starting_at(instant);
    runs.job(&wheel, at(runs.start).times(2), &[]).await.unwrap();
    runs.job(&wheel, at(runs.start + ms(15)).times(2), &[]).await.unwrap();
    assert_eq!(runs.began(), [0, 10, 15, 25]);
    // 100 ms ago: what was missed since is made up for at once.
    let runs = Runs::new();
    runs.job(&wheel, at(runs.start - ms(100)).times(12), &[]).await.unwrap();
    assert_eq!(runs.began(), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10]);
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
async fn a_job_whose_period_or_delay_no_instant_can_hold_waits() {
    let wheel = TimingWheel::new();
    let jobs = [
        wheel.run_by(rate(Duration::MAX), || async {}),
        wheel.run_by(rest(Duration::MAX), || async {}),
        wheel.run_by(rate(Duration::MAX).with_missed_tick_behavior(MissedTickBehavior::Delay), || async {}),
    ];
    sleep(1_000 * DAY).await;
    assert_eq!(jobs.map(|job| job.state()), [JobState::Pending; 3]);
}

/// Learns what moves its run, and says when the next one is due: in an hour.
struct Hourly(Arc<Mutex<Vec<PendingRun>>>);

impl Schedule for Hourly {
    fn next(&mut self, previous: Previous) -> Option<Instant> {
        Some(previous.ended + ms(3_600_000))
    }

    fn attach(&mut self, run: PendingRun) {
        self.0.lock().unwrap().push(run);
    }
}

#[tokio::test(start_paused = true)]
async fn a_schedule_moves_the_run_that_its_job_waits_for() {
    let wheel = TimingWheel::new();
    let runs: Arc<Mutex<Vec<PendingRun>>> = Arc::default();
    let (start, jobs) = (Instant::now(), Jobs::new(&wheel));
    let alone = wheel.run_by(Hourly(runs.clone()).times(2), || async {});
    jobs.try_run_by(
        "key",
        Box::new(Hourly(runs.clone()).until(start + ms(9_000_000))) as Box<dyn Schedule>,
        || async {},
    )
    .unwrap();
    let attached = runs.lock().unwrap().clone();
    assert_eq!(attached.len(), 2, "once for each job");
    for run in &attached {
        assert_eq!(run.replan(Some(start + ms(50))), Replanned::Done);
    }
    for due in [alone.due(), jobs.get(&"key").unwrap().due] {
        assert_eq!(due, Some(start + ms(50)));
    }
    // It goes on from there.
    assert_eq!(alone.await.unwrap(), 2);
    assert_eq!(start.elapsed(), ms(3_600_050));
    assert_eq!(attached[0].replan(Some(start)), Replanned::NotPending, "the job is over");
}
