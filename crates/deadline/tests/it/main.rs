//! Deadlines by their public API, on tokio's paused clock.

mod current;
mod ends;
mod many;
mod model;
mod refused;
mod threads;
#[cfg(feature = "wire")]
mod wire;

use std::time::Duration;

use timingwheel_deadline::{Deadline, Ended};
use tokio::task::JoinHandle;
use tokio_test::task::{self, Spawn};

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A task that waits for the end of a deadline.
fn ended(deadline: &Deadline) -> JoinHandle<Ended> {
    tokio::spawn(deadline.ended())
}

/// A future that was polled once, and waits.
fn pending_once<F: Future>(future: F) -> Spawn<F> {
    let mut waits = task::spawn(future);
    assert!(waits.poll().is_pending());
    waits
}
