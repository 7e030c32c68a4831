//! What is asked of repeating jobs during and between their runs: to end, or to go over to another schedule.

use timingwheel::TimingWheel;
use timingwheel_jobs::{JobState, Schedule};
use tokio::time::sleep;

use crate::runs::Runs;
use crate::{DAY, ms, rate};

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
