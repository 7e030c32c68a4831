//! How does code run again and again? Five samples at a fixed rate, of which one answers when the next is due.

use std::time::Duration;

use timingwheel::TimingWheel;
use timingwheel_jobs::{FixedRate, JobError, JobsExt, NextRun, Schedule};
use tokio::time::Instant;

#[tokio::main]
async fn main() -> Result<(), JobError> {
    let (wheel, start, mut sample) = (TimingWheel::new(), Instant::now(), 0);
    let rate = FixedRate::new(Duration::from_millis(20)).times(5);
    let samples = wheel.run_by(rate, move || {
        sample += 1;
        async move {
            println!("sample {sample} after {:?}", start.elapsed());
            if sample == 3 { NextRun::After(Duration::from_millis(100)) } else { NextRun::BySchedule }
        }
    });
    assert_eq!(samples.await?, 5);
    Ok(())
}
