//! `?` takes what a wheel refuses into the boxed errors that applications return, also if the future that the error gives
//! back cannot be shared between threads.

use std::cell::Cell;
use std::error::Error;
use std::time::Duration;

use timingwheel::TimingWheel;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

type Boxed = Box<dyn Error + Send + Sync>;

/// Can be sent, and not shared, as it keeps a cell over a wait.
async fn unshared() {
    let cell = Cell::new(1);
    tokio::task::yield_now().await;
    cell.set(2);
}

fn timeout(wheel: &TimingWheel) -> Result<(), Boxed> {
    let _timeout = wheel.try_timeout(DAY, unshared())?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_becomes_a_boxed_error_that_says_why() {
    let wheel = TimingWheel::builder().max_pending(0).build().unwrap();
    let text = timeout(&wheel).unwrap_err().to_string();
    assert_eq!(text, "the timing wheel refused one more timer: 0 are pending, and its max_pending is 0");
}
