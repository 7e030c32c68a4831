//! What is asked of repeating jobs during and between their runs: to end, or to go over to another schedule.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake};
use std::thread;

use timingwheel::TimingWheel;
use timingwheel_jobs::{JobState, JobsExt, Previous, Repeating, Schedule};
use tokio::time::sleep;

use crate::runs::Runs;
use crate::{DAY, ms, rate, runtime};

#[tokio::test(start_paused = true)]
async fn a_cancel_between_runs_is_in_time_and_during_one_lets_it_be_the_last() {
    let wheel = TimingWheel::new();
    let runs = Runs::new();
    let job = runs.job(&wheel, rate(ms(10)), &[]);
    sleep(ms(25)).await;
    assert!(job.cancel());
    assert_eq!((job.state(), wheel.pending()), (JobState::Cancelled, 0));
    assert!(job.await.unwrap_err().is_cancelled());
    assert_eq!(runs.began(), [10, 20]);

    let runs = Runs::new();
    let job = runs.job(&wheel, rate(ms(10)), &[25]);
    sleep(ms(15)).await;
    assert!(job.cancel(), "no run comes after this one");
    assert!(!job.cancel(), "it was cancelled before");
    assert!(!job.set_schedule(rate(ms(1))), "it is to end");
    assert_eq!(job.state(), JobState::Running);
    assert!(job.await.unwrap_err().is_cancelled());
    assert_eq!(runs.start.elapsed(), ms(35), "the run went on to its end");
    sleep(DAY).await;
    assert_eq!(runs.began(), [10]);

    let job = runs.job(&wheel, rate(ms(10)).times(1), &[]);
    sleep(ms(20)).await;
    assert!(!job.cancel(), "it is over");
    assert_eq!(job.await.unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn dropping_the_handle_cancels_only_if_asked() {
    let wheel = TimingWheel::new();
    let runs = Runs::new();
    drop(runs.job(&wheel, rate(ms(10)).times(3), &[]));
    drop(runs.job(&wheel, rate(ms(10)), &[]).cancel_on_drop());
    sleep(DAY).await;
    assert_eq!(runs.began(), [10, 20, 30]);
}

#[tokio::test(start_paused = true)]
async fn a_schedule_that_changes_between_runs_begins_anew() {
    let wheel = TimingWheel::new();
    let runs = Runs::new();
    let job = runs.job(&wheel, rate(DAY), &[]);
    sleep(ms(5)).await;
    assert!(job.set_schedule(rate(ms(10))));
    assert_eq!((job.due(), wheel.pending()), (Some(runs.start + ms(15)), 1));
    sleep(ms(25)).await;
    // Sooner, later, and then to none at all.
    assert!(job.set_schedule(rate(ms(1)).times(2)));
    assert!(job.set_schedule(rate(ms(100))));
    sleep(ms(150)).await;
    assert_eq!(runs.began(), [15, 25, 130]);
    assert!(job.set_schedule(|_| None));
    assert_eq!((job.state(), wheel.pending()), (JobState::Done, 0));
    assert!(!job.set_schedule(rate(ms(1))), "it is over");
    assert_eq!(job.await.unwrap(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_schedule_that_changes_during_a_run_counts_from_the_change_when_the_run_is_over() {
    let wheel = TimingWheel::new();
    let runs = Runs::new();
    let job = runs.job(&wheel, rate(DAY).starting_at(runs.start + ms(10)), &[20]);
    sleep(ms(15)).await;
    assert!(job.set_schedule(rate(ms(1))));
    // The last one asked for counts.
    assert!(job.set_schedule(rate(ms(40)).times(2)));
    assert_eq!(job.state(), JobState::Running);
    assert_eq!(job.await.unwrap(), 3);
    assert_eq!(runs.began(), [10, 55, 95]);

    let runs = Runs::new();
    let job = runs.job(&wheel, rate(ms(10)), &[20]);
    sleep(ms(15)).await;
    assert!(job.set_schedule(|_| None));
    assert_eq!(job.await.unwrap(), 1);
    assert_eq!(runs.start.elapsed(), ms(30));
}

#[tokio::test(start_paused = true)]
async fn what_is_asked_during_a_run_counts_also_if_that_turns_out_to_be_the_last() {
    let wheel = TimingWheel::new();
    let runs = Runs::new();
    let job = runs.job(&wheel, rate(ms(10)).times(1), &[10]);
    sleep(ms(15)).await;
    assert!(job.set_schedule(rate(ms(50)).times(2)));
    assert_eq!(job.await.unwrap(), 3);
    assert_eq!(runs.began(), [10, 65, 115]);

    let runs = Runs::new();
    let job = runs.job(&wheel, rate(ms(10)).times(1), &[10]);
    sleep(ms(15)).await;
    assert!(job.cancel(), "it is cancelled, if not this run");
    assert!(job.await.unwrap_err().is_cancelled());
}

/// A schedule of one run, of which the job is asked for something as it is asked for the second.
#[tokio::test(start_paused = true)]
async fn what_is_asked_while_the_schedule_finds_no_further_run_counts() {
    let wheel = TimingWheel::new();
    let slot = Arc::new(Mutex::new(None::<Repeating>));
    let inner = slot.clone();
    let mut is_first = true;
    let once = move |previous: Previous| {
        let job = inner.lock().unwrap();
        let changed = job.as_ref().map(|job| job.set_schedule(rate(ms(50)).times(2)));
        assert_eq!(changed, (!is_first).then_some(true));
        std::mem::take(&mut is_first).then_some(previous.due + ms(10))
    };
    let runs = Runs::new();
    let job = runs.job(&wheel, once, &[]);
    *slot.lock().unwrap() = Some(job);
    sleep(ms(15)).await;
    let job = slot.lock().unwrap().take().unwrap();
    assert_eq!(job.await.unwrap(), 3);
    assert_eq!(runs.began(), [10, 60, 110]);
}

#[tokio::test(start_paused = true)]
async fn a_job_changes_its_own_schedule() {
    let wheel = TimingWheel::new();
    let runs = Runs::new();
    let slot = Arc::new(Mutex::new(None::<Repeating>));
    let (note, inner) = (runs.clone(), slot.clone());
    let job = wheel.run_by(rate(ms(10)), move || {
        note.note();
        if let Some(job) = &*inner.lock().unwrap() {
            job.set_schedule(rate(ms(50)).times(2));
        }
        async {}
    });
    *slot.lock().unwrap() = Some(job);
    sleep(ms(15)).await;
    let job = slot.lock().unwrap().take().unwrap();
    job.await.unwrap();
    assert_eq!(runs.began(), [10, 60, 110]);
}

/// Puts a job off when it is woken.
struct PutOff(Repeating);

impl Wake for PutOff {
    fn wake(self: Arc<Self>) {
        assert!(self.0.set_schedule(rate(DAY)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_that_is_put_off_while_the_driver_is_on_its_way_to_it_does_not_run_too_early() {
    let wheel = TimingWheel::builder().shards(1).build().unwrap();
    let runs = Runs::new();
    let job = Arc::new(PutOff(runs.job(&wheel, rate(DAY), &[])));
    let mut first = wheel.sleep(ms(10));
    assert!(first.poll_wait(&mut Context::from_waker(&job.clone().into())).is_pending());
    assert!(job.0.set_schedule(rate(ms(10))));
    // The driver takes both out of the wheel, wakes the sleep, and then the job.
    sleep(DAY).await;
    assert_eq!(runs.began(), []);
    sleep(ms(20)).await;
    assert_eq!(runs.began(), [(DAY + ms(10)).as_millis()]);
}

#[test]
fn a_schedule_that_changes_keeps_the_jobs_place_on_a_wheel_that_is_full() {
    let runtime = runtime(2);
    let _within = runtime.enter();
    let wheel = TimingWheel::builder().max_pending(1).build().unwrap();
    let job = wheel.run_by(rate(DAY), || async {});
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                assert!(wheel.try_sleep(DAY).is_err(), "the place was free for a moment");
            }
        });
        // Sooner and later.
        for period in [DAY / 2, DAY].into_iter().cycle().take(20_000) {
            assert!(job.set_schedule(rate(period)));
        }
        is_done.store(true, Ordering::Relaxed);
    });
    assert_eq!((job.state(), wheel.pending()), (JobState::Pending, 1));
}
