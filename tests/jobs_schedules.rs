//! Jobs that run again and again: schedules, what becomes of missed runs, changes and ends, on the paused clock.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake};
use std::time::Duration;

use timingwheel::TimingWheel;
use timingwheel::job::{FixedDelay, FixedRate, JobState, Previous, Repeating, Schedule};
use tokio::sync::Notify;
use tokio::time::{Instant, MissedTickBehavior, advance, sleep};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const BEHAVIORS: [MissedTickBehavior; 3] =
    [MissedTickBehavior::Burst, MissedTickBehavior::Delay, MissedTickBehavior::Skip];

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// When runs began, in milliseconds from the start.
#[derive(Clone)]
struct Log {
    start: Instant,
    runs: Arc<Mutex<Vec<u128>>>,
}

impl Log {
    fn new() -> Self {
        Self { start: Instant::now(), runs: Arc::default() }
    }

    fn note(&self) {
        self.runs.lock().unwrap().push(self.start.elapsed().as_millis());
    }

    /// A job that notes each run, which takes as long as `lengths` says, and then no time.
    fn job(&self, wheel: &TimingWheel, schedule: impl Schedule, lengths: &[u64]) -> Repeating {
        let (log, lengths) = (self.clone(), lengths.to_vec());
        let mut lengths = lengths.into_iter();
        wheel.run_by(schedule, move || {
            log.note();
            let length = lengths.next();
            async move {
                if let Some(length) = length {
                    sleep(ms(length)).await;
                }
            }
        })
    }

    fn runs(&self) -> Vec<u128> {
        self.runs.lock().unwrap().clone()
    }
}

#[test]
fn after_a_million_runs_of_10_ms_the_sum_is_exact() {
    let start = Instant::now();
    let mut rate = FixedRate::new(ms(10));
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
    let log = Log::new();
    let lengths: Vec<u64> = (0..10_000).map(|run| run * 7 % 10).collect();
    let runs = log.job(&wheel, FixedRate::new(ms(10)).times(10_000), &lengths).await.unwrap();
    assert_eq!(runs, 10_000);
    assert_eq!(start.elapsed(), ms(10 * 10_000 + lengths[9_999]));
    assert!(log.runs().iter().zip(1..).all(|(&at, run)| at == 10 * run));
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
            let rate = FixedRate::new(ms(10)).with_missed_tick_behavior(behavior);
            let log = Log::new();
            log.job(&wheel, rate.times(50), &lengths).await.unwrap();

            let expected = Log::new();
            let mut interval = wheel.interval_at(expected.start + ms(10), ms(10));
            interval.set_missed_tick_behavior(behavior);
            for &length in &lengths {
                interval.tick().await;
                expected.note();
                sleep(ms(length)).await;
            }
            assert_eq!(log.runs(), expected.runs(), "{behavior:?}, {lengths:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_takes_longer_than_the_period_is_followed_by_the_next_at_its_end() {
    for (behavior, runs) in BEHAVIORS.into_iter().zip([
        [10, 45, 45, 45, 50, 60],
        [10, 45, 55, 65, 75, 85],
        [10, 45, 50, 60, 70, 80],
    ]) {
        let log = Log::new();
        let rate = FixedRate::new(ms(10)).with_missed_tick_behavior(behavior);
        log.job(&TimingWheel::new(), rate.times(6), &[35]).await.unwrap();
        assert_eq!(log.runs(), runs, "{behavior:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_fixed_delay_counts_from_the_end_of_each_run() {
    let log = Log::new();
    log.job(&TimingWheel::new(), FixedDelay::new(ms(10)).times(4), &[3, 100, 0]).await.unwrap();
    assert_eq!(log.runs(), [10, 23, 133, 143]);
}

#[tokio::test(start_paused = true)]
async fn a_schedule_ends_by_number_by_instant_and_by_itself() {
    let wheel = TimingWheel::new();
    let rate = || FixedRate::new(ms(10));
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
    let log = Log::new();
    let listed = move |previous: Previous| Some(previous.due + ms(waits.next()?));
    assert_eq!(log.job(&wheel, listed, &[]).await.unwrap(), 3);
    assert_eq!(log.runs(), [1, 21, 321]);
}

#[tokio::test(start_paused = true)]
async fn a_schedule_chosen_at_run_time_is_a_schedule() {
    let wheel = TimingWheel::new();
    for number in 1..3 {
        let schedule: Box<dyn Schedule> = if number == 1 {
            Box::new(FixedRate::new(ms(1)).times(1))
        } else {
            Box::new(FixedDelay::new(ms(1)).times(2))
        };
        assert_eq!(wheel.run_by(schedule, || async {}).await.unwrap(), number);
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_run_is_when_the_schedule_says_also_at_once_or_in_the_past() {
    let wheel = TimingWheel::new();
    sleep(ms(100)).await;
    let log = Log::new();
    let at = |instant| FixedRate::new(ms(10)).starting_at(instant);
    log.job(&wheel, at(log.start).times(2), &[]).await.unwrap();
    log.job(&wheel, at(log.start + ms(15)).times(2), &[]).await.unwrap();
    assert_eq!(log.runs(), [0, 10, 15, 25]);
    // 100 ms ago: what was missed since is made up for at once.
    let log = Log::new();
    log.job(&wheel, at(log.start - ms(100)).times(12), &[]).await.unwrap();
    assert_eq!(log.runs(), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10]);
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
    Log::new().job(&TimingWheel::new(), schedule.times(3), &[30]).await.unwrap();
    sleep(ms(1)).await;
    assert_eq!(*seen.lock().unwrap(), [(0, 0, 0, false), (10, 10, 40, false), (20, 40, 40, true)]);
}

#[tokio::test(start_paused = true)]
async fn the_state_goes_from_pending_to_running_and_back() {
    let wheel = TimingWheel::new();
    let job = Log::new().job(&wheel, FixedRate::new(ms(10)).times(2), &[5]);
    let start = Instant::now();
    for (at, state, due) in [
        (5, JobState::Pending, Some(10)),
        (12, JobState::Running, None),
        (17, JobState::Pending, Some(20)),
        (21, JobState::Done, None),
    ] {
        tokio::time::sleep_until(start + ms(at)).await;
        assert_eq!((job.state(), job.due()), (state, due.map(|due| start + ms(due))), "{at}");
    }
    assert_eq!(job.await.unwrap(), 2);
    assert_eq!(wheel.pending(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_cancel_between_runs_is_in_time_and_during_one_lets_it_be_the_last() {
    let wheel = TimingWheel::new();
    let log = Log::new();
    let job = log.job(&wheel, FixedRate::new(ms(10)), &[]);
    sleep(ms(25)).await;
    assert!(job.cancel());
    assert_eq!((job.state(), wheel.pending()), (JobState::Cancelled, 0));
    assert!(job.await.unwrap_err().is_cancelled());
    assert_eq!(log.runs(), [10, 20]);

    let log = Log::new();
    let job = log.job(&wheel, FixedRate::new(ms(10)), &[25]);
    sleep(ms(15)).await;
    assert!(!job.cancel());
    assert!(!job.set_schedule(FixedRate::new(ms(1))), "it is to end");
    assert_eq!(job.state(), JobState::Running);
    assert!(job.await.unwrap_err().is_cancelled());
    assert_eq!(log.start.elapsed(), ms(35), "the run went on to its end");
    sleep(DAY).await;
    assert_eq!(log.runs(), [10]);
}

#[tokio::test(start_paused = true)]
async fn dropping_the_handle_cancels_only_if_asked() {
    let wheel = TimingWheel::new();
    let log = Log::new();
    drop(log.job(&wheel, FixedRate::new(ms(10)).times(3), &[]));
    drop(log.job(&wheel, FixedRate::new(ms(10)), &[]).cancel_on_drop());
    sleep(DAY).await;
    assert_eq!(log.runs(), [10, 20, 30]);
}

#[tokio::test(start_paused = true)]
async fn a_schedule_that_changes_between_runs_begins_anew() {
    let wheel = TimingWheel::new();
    let log = Log::new();
    let job = log.job(&wheel, FixedRate::new(DAY), &[]);
    sleep(ms(5)).await;
    assert!(job.set_schedule(FixedRate::new(ms(10))));
    assert_eq!((job.due(), wheel.pending()), (Some(log.start + ms(15)), 1));
    sleep(ms(25)).await;
    // Sooner, later, and then to none at all.
    assert!(job.set_schedule(FixedRate::new(ms(1)).times(2)));
    assert!(job.set_schedule(FixedRate::new(ms(100))));
    sleep(ms(150)).await;
    assert_eq!(log.runs(), [15, 25, 130]);
    assert!(job.set_schedule(|_| None));
    assert_eq!((job.state(), wheel.pending()), (JobState::Done, 0));
    assert!(!job.set_schedule(FixedRate::new(ms(1))), "it is over");
    assert_eq!(job.await.unwrap(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_schedule_that_changes_during_a_run_counts_from_the_change_when_the_run_is_over() {
    let wheel = TimingWheel::new();
    let log = Log::new();
    let job = log.job(&wheel, FixedRate::new(DAY).starting_at(log.start + ms(10)), &[20]);
    sleep(ms(15)).await;
    assert!(job.set_schedule(FixedRate::new(ms(1))));
    // The last one asked for counts.
    assert!(job.set_schedule(FixedRate::new(ms(40)).times(2)));
    assert_eq!(job.state(), JobState::Running);
    assert_eq!(job.await.unwrap(), 3);
    assert_eq!(log.runs(), [10, 55, 95]);

    let log = Log::new();
    let job = log.job(&wheel, FixedRate::new(ms(10)), &[20]);
    sleep(ms(15)).await;
    assert!(job.set_schedule(|_| None));
    assert_eq!(job.await.unwrap(), 1);
    assert_eq!(log.start.elapsed(), ms(30));
}

#[tokio::test(start_paused = true)]
async fn a_job_changes_its_own_schedule() {
    let wheel = TimingWheel::new();
    let log = Log::new();
    let slot = Arc::new(Mutex::new(None::<Repeating>));
    let (note, inner) = (log.clone(), slot.clone());
    let job = wheel.run_every(ms(10), move || {
        note.note();
        if let Some(job) = &*inner.lock().unwrap() {
            job.set_schedule(FixedRate::new(ms(50)).times(2));
        }
        async {}
    });
    *slot.lock().unwrap() = Some(job);
    sleep(ms(15)).await;
    let job = slot.lock().unwrap().take().unwrap();
    job.await.unwrap();
    assert_eq!(log.runs(), [10, 60, 110]);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_panics_ends_its_job_and_no_other() {
    let wheel = TimingWheel::new();
    let mut runs = 0;
    let job = wheel.run_every(ms(10), move || {
        runs += 1;
        assert!(runs < 3, "run {runs}");
        async {}
    });
    let other = wheel.run_by(FixedRate::new(ms(10)).times(5), || async {});
    assert_eq!(job.await.unwrap_err().to_string(), "the job panicked: run 3");
    assert_eq!(other.await.unwrap(), 5);
    let job = wheel.run_every(ms(10), || async { panic!("in the future") });
    assert_eq!(job.await.unwrap_err().to_string(), "the job panicked: in the future");
    assert_eq!((wheel.stats().jobs_panicked, wheel.pending()), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn a_schedule_that_panics_ends_its_job_or_is_not_taken() {
    let wheel = TimingWheel::new();
    let mut asked = 0;
    let faulty = move |previous: Previous| {
        asked += 1;
        assert!(asked < 3, "asked for run {asked}");
        Some(previous.due + ms(10))
    };
    let error = wheel.run_by(faulty, || async {}).await.unwrap_err();
    assert_eq!(error.to_string(), "the job panicked: asked for run 3");

    let faulty = |_: Previous| -> Option<Instant> { panic!("at once") };
    assert!(catch_unwind(AssertUnwindSafe(|| drop(wheel.run_by(faulty, || async {})))).is_err());
    let log = Log::new();
    let job = log.job(&wheel, FixedRate::new(ms(10)).times(2), &[]);
    assert!(catch_unwind(AssertUnwindSafe(|| job.set_schedule(faulty))).is_err());
    assert_eq!(job.await.unwrap(), 2);
    assert_eq!(log.runs(), [10, 20]);
}

#[tokio::test(start_paused = true)]
async fn a_schedule_that_is_always_late_lets_others_run() {
    let wheel = TimingWheel::new();
    let runs = Arc::new(AtomicUsize::new(0));
    let count = runs.clone();
    let busy = wheel.run_by(
        |previous: Previous| Some(previous.due - ms(1)),
        move || {
            count.fetch_add(1, Ordering::Relaxed);
            async {}
        },
    );
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    assert!(runs.load(Ordering::Relaxed) > 1, "{runs:?}");
    assert!(!busy.cancel());
    assert!(busy.await.unwrap_err().is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn at_a_shutdown_a_job_between_runs_ends_and_one_that_runs_ends_after_its_run() {
    let wheel = TimingWheel::new();
    let log = Log::new();
    let between = log.job(&wheel, FixedRate::new(ms(10)), &[]);
    let during = log.job(&wheel, FixedRate::new(ms(10)), &[10, 10, 10]);
    let due_after = log.job(&wheel, FixedRate::new(ms(10)), &[20, 20]);
    sleep(ms(15)).await;
    assert_eq!(wheel.shutdown(), 1);
    for job in [between, during, due_after] {
        let error = job.await.unwrap_err();
        assert!(error.reason().unwrap().is_shutdown(), "{error}");
    }
    assert_eq!(log.runs(), [10, 10, 10]);
}

#[tokio::test(start_paused = true)]
async fn over_the_bound_a_repeating_job_is_refused_and_between_runs_it_ends_and_says_so() {
    let wheel = TimingWheel::builder().max_pending(1).build().unwrap();
    let job = wheel.try_run_by(FixedRate::new(ms(10)), || sleep(ms(1))).unwrap();
    let refused = wheel.try_run_by(FixedRate::new(ms(10)), || async {}).unwrap_err();
    assert!(refused.error().is_at_capacity());
    refused.into_inner()().await;
    let told = wheel.run_by(FixedRate::new(ms(10)), || async {});
    assert!(told.await.unwrap_err().reason().unwrap().is_at_capacity());
    advance(ms(10)).await;
    let _place = wheel.try_sleep(DAY).unwrap();
    assert!(job.await.unwrap_err().reason().unwrap().is_at_capacity());
}

#[test]
fn when_the_runtime_ends_repeating_jobs_end_and_say_why() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let wheel = runtime.block_on(async { TimingWheel::new() });
    let runs = Arc::new(Notify::new());
    let notify = runs.clone();
    let busy = wheel.run_every(ms(1), move || {
        notify.notify_one();
        async {}
    });
    let stuck = wheel.run_every(ms(1), std::future::pending);
    let far = wheel.run_every(DAY, || async {});
    runtime.block_on(async {
        runs.notified().await;
        while stuck.state() != JobState::Running {
            tokio::task::yield_now().await;
        }
    });
    drop(runtime);
    for job in [busy, stuck, far] {
        let error = tokio_test::block_on(async { tokio::time::timeout(Duration::from_secs(30), job).await });
        assert!(error.expect("it hangs").unwrap_err().reason().unwrap().is_shutdown());
    }
}

/// Puts a job off when it is woken.
struct PutOff(Repeating);

impl Wake for PutOff {
    fn wake(self: Arc<Self>) {
        assert!(self.0.set_schedule(FixedRate::new(DAY)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_that_is_put_off_while_the_driver_is_on_its_way_to_it_does_not_run_too_early() {
    let wheel = TimingWheel::builder().shards(1).build().unwrap();
    let log = Log::new();
    let job = Arc::new(PutOff(log.job(&wheel, FixedRate::new(DAY), &[])));
    let mut first = wheel.sleep(ms(10));
    assert!(first.poll_elapsed(&mut Context::from_waker(&job.clone().into())).is_pending());
    assert!(job.0.set_schedule(FixedRate::new(ms(10))));
    // The driver takes both out of the wheel, wakes the sleep, and then the job.
    sleep(DAY).await;
    assert_eq!(log.runs(), []);
    sleep(ms(20)).await;
    assert_eq!(log.runs(), [(DAY + ms(10)).as_millis()]);
}
