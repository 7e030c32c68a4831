//! How does code run later, without a task that waits? A reminder in a moment, and a farewell that is cancelled.

use std::time::Duration;

use timingwheel::TimingWheel;
use timingwheel_jobs::{JobError, JobsExt};

#[tokio::main]
async fn main() -> Result<(), JobError> {
    let wheel = TimingWheel::new();
    let reminder = wheel.run_after(Duration::from_millis(50), async { "remember the milk" });
    let farewell = wheel.run_after(Duration::from_secs(60), async { println!("bye") });

    println!("the reminder is due in {:?}", reminder.info().time_left());
    println!("{}", reminder.await?);

    assert!(farewell.cancel(), "it has not begun");
    println!("{}", farewell.await.unwrap_err());
    Ok(())
}
