//! How does a task that a handler spawns end with the request?
//!
//! `cargo run -p timingwheel-deadline --example spawn`

use std::time::Duration;

use timingwheel::TimingWheel;
use timingwheel_deadline::{Deadline, DeadlineExt};
use tokio::time::sleep;

/// Deep within the handler: nobody passed the deadline on.
async fn work() {
    let audit = async {
        sleep(Duration::from_secs(3600)).await;
    };
    let task = tokio::spawn(Deadline::run_current(audit));
    println!("the task ended: {:?}", task.await.expect("it does not panic"));
}

#[tokio::main]
async fn main() {
    let request = TimingWheel::new().deadline_in(Duration::from_millis(100));
    // `run` makes the deadline current and ends the handler. `scope` only makes it current, so the handler sees its task end.
    request.scope(work()).await;
    println!("the request ended: {:?}", request.end());
}
