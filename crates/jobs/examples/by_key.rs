//! How are jobs addressed by keys, and ended? Orders that are cancelled unless they are paid in time.

use std::error::Error;
use std::time::Duration;

use timingwheel::TimingWheel;
use timingwheel_jobs::Jobs;
use tokio::time::sleep;

const IN_TIME: Duration = Duration::from_millis(100);

async fn cancel(order: u32) {
    println!("order {order} was not paid: cancelling it");
    sleep(Duration::from_millis(20)).await;
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let orders = Jobs::new(&TimingWheel::new());
    for order in 1..=4 {
        orders.try_run_after(order, IN_TIME, cancel(order))?;
    }
    // One is paid, one gets more time, and one comes to nothing.
    assert!(orders.remove(&1).is_some());
    assert!(orders.reset_after(&2, 100 * IN_TIME));
    orders.try_run_after(3, 100 * IN_TIME, async { println!("another job has its key") })?;

    // Order 4 is being cancelled when the program ends.
    sleep(IN_TIME + Duration::from_millis(10)).await;
    let ended = orders.shutdown(Duration::from_secs(10)).await;
    println!("finished: {:?}, aborted: {:?}", ended.finished_keys, ended.aborted_keys);
    for job in ended.not_begun {
        println!("order {} was due in {:?}", job.key, job.info.time_left());
    }
    Ok(())
}
