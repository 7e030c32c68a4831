//! Jobs that are armed again after they have fired.

use timingwheel::TimingWheel;
use timingwheel_jobs::{FixedDelay, FixedRate, Schedule};
use tokio::time::sleep;

use crate::runs::Runs;
use crate::{DAY, ms};

#[tokio::test(start_paused = true)]
async fn a_reset_during_a_run_counts_once_and_the_schedule_goes_on_from_there() {
    let (wheel, runs) = (TimingWheel::new(), Runs::new());
    let job = runs.job(&wheel, FixedRate::new(ms(10)).times(3), &[4]);
    sleep(ms(2)).await;
    assert!(job.reset_after(ms(23)));
    sleep(DAY).await;
    assert_eq!(runs.began(), [0, 25, 35]);
    assert_eq!(job.await.unwrap(), 3);

    // Of the last run too.
    let runs = Runs::new();
    let job = runs.job(&wheel, FixedRate::new(ms(10)).times(1), &[4, 4]);
    sleep(ms(2)).await;
    assert!(job.reset_after(ms(18)));
    assert_eq!(job.await.unwrap(), 2);
    assert_eq!(runs.began(), [0, 20]);
}

#[tokio::test(start_paused = true)]
async fn a_reset_to_a_time_that_has_passed_when_the_run_ends_is_followed_at_once() {
    let (wheel, runs) = (TimingWheel::new(), Runs::new());
    let job = runs.job(&wheel, FixedDelay::new(DAY).starting_after(ms(10)), &[20]);
    sleep(ms(15)).await;
    assert!(job.reset_after(ms(1)));
    sleep(ms(30)).await;
    assert_eq!(runs.began(), [10, 30]);
}
