//! How does a client come back to a server that is busy? At most five tries, ever more slowly, and by chance, so that not all
//! clients come back together.

use std::time::Duration;

use timingwheel::TimingWheel;
use timingwheel_jobs::{Backoff, JobError, JobsExt, NextRun, Schedule};
use tokio::time::Instant;

#[tokio::main]
async fn main() -> Result<(), JobError> {
    let (start, mut tries) = (Instant::now(), 0);
    let backoff = Backoff::new(Duration::from_millis(20), Duration::from_millis(100)).with_full_jitter();
    let job = TimingWheel::new().run_by(backoff.times(5), move || {
        tries += 1;
        async move {
            println!("try {tries} after {:?}", start.elapsed());
            let has_worked = tries == 4;
            if has_worked { NextRun::Never } else { NextRun::BySchedule }
        }
    });
    println!("over after {} tries", job.await?);
    Ok(())
}
