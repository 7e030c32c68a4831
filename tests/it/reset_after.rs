//! `Sleep::reset_after`, `Timeout::reset_after`: deadlines moved by a time from now.

use std::pin::{Pin, pin};
use std::time::Duration;

use timingwheel::TimingWheel;
use tokio::time::{Instant, advance};
use tokio_test::{assert_pending, task};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_sleep_is_moved_to_a_time_from_now_and_not_from_its_old_deadline() {
    let wheel = TimingWheel::new();
    let start = Instant::now();
    for (passed, after) in [(3, 10), (3, 1), (0, 0)] {
        let begin = Instant::now();
        let mut sleep = task::spawn(wheel.sleep(SECOND * 5));
        assert_pending!(sleep.poll());
        advance(SECOND * passed).await;
        sleep.enter(|_, mut sleep| sleep.reset_after(SECOND * after));
        assert_eq!(sleep.deadline(), begin + SECOND * (passed + after));
        sleep.await;
        assert_eq!(begin.elapsed(), SECOND * (passed + after));
    }
    assert_eq!(start.elapsed(), SECOND * 17);
}

#[tokio::test(start_paused = true)]
async fn a_time_too_long_for_any_clock_never_comes() {
    let wheel = TimingWheel::new();
    let mut sleep = wheel.sleep(SECOND);
    Pin::new(&mut sleep).reset_after(Duration::MAX);
    let century = SECOND * 100 * 365 * 24 * 60 * 60;
    assert!(wheel.timeout(century, &mut sleep).await.is_err());
    Pin::new(&mut sleep).reset_after(SECOND);
    assert!(wheel.timeout(SECOND * 2, sleep).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_timeout_that_has_elapsed_waits_again_for_a_time_from_now() {
    let wheel = TimingWheel::new();
    let start = Instant::now();
    let mut call = pin!(wheel.timeout(SECOND, wheel.sleep(SECOND * 10)));
    assert!(call.as_mut().await.is_err());
    call.as_mut().reset_after(SECOND * 2);
    assert!(call.as_mut().await.is_err());
    assert_eq!(start.elapsed(), SECOND * 3);
    advance(SECOND).await;
    call.as_mut().reset_after(SECOND * 7);
    assert!(call.await.is_ok());
    assert_eq!(start.elapsed(), SECOND * 10);
}
