//! Makes workers stall, as blocking code or a busy machine does.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use fastrand::Rng;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::books::Books;

/// Between two stalls, and of a stall, at the most.
const BETWEEN: Duration = Duration::from_millis(400);
const LONGEST: Duration = Duration::from_millis(20);

/// Stalls some of the workers again and again until `end`, and now and then as many tasks at once as there are workers.
pub(crate) async fn stall(workers: usize, books: Arc<Books>, seed: u64, end: Instant) {
    let mut random = Rng::with_seed(seed);
    while Instant::now() < end {
        sleep(BETWEEN.mul_f64(random.f64())).await;
        let mut stalls = JoinSet::new();
        for _ in 0..random.usize(1..=workers) {
            let length = LONGEST.mul_f64(random.f64());
            stalls.spawn(async move { thread::sleep(length) });
            books.stalls.add();
        }
        stalls.join_all().await;
    }
}
