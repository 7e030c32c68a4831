//! How does a service bound its work? Ten mails are due together, and three are sent at once.

use std::error::Error;
use std::time::Duration;

use timingwheel::TimingWheel;
use timingwheel_jobs::Jobs;
use tokio::time::sleep;

async fn send(mail: u32) {
    sleep(Duration::from_millis(20)).await;
    println!("sent mail {mail}");
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mails = Jobs::new(&TimingWheel::new()).with_concurrency(3);
    for mail in 0..10 {
        mails.try_run_after(mail, Duration::from_millis(50), send(mail))?;
    }
    while !mails.is_empty() {
        sleep(Duration::from_millis(15)).await;
        let (running, queued) = mails.running_and_queued();
        println!("{running} are being sent, {queued} wait for a place");
    }
    Ok(())
}
