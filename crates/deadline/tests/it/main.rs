//! Deadlines by their public API, on tokio's paused clock.

mod ends;
mod model;
mod reusable;
mod threads;
mod told;
#[cfg(feature = "wire")]
mod wire;

use std::future::pending;
use std::time::Duration;

use timingwheel_deadline::{Deadline, Ended};
use tokio::task::JoinHandle;
use tokio_test::task::{self, Spawn};

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A task that waits for the end of a deadline, or for `limit` if it is sooner.
fn wait(deadline: &Deadline, limit: Duration) -> JoinHandle<Ended> {
    let deadline = deadline.clone();
    tokio::spawn(async move { deadline.run_in(limit, pending::<()>()).await.unwrap_err() })
}

/// A task that waits for the end of a deadline.
fn passed(deadline: &Deadline) -> JoinHandle<Ended> {
    let deadline = deadline.clone();
    tokio::spawn(async move { deadline.passed().await })
}

/// A future that was polled once, and waits.
fn pending_once<F: Future>(future: F) -> Spawn<F> {
    let mut waits = task::spawn(future);
    assert!(waits.poll().is_pending());
    waits
}
