//! Tasks that make calls with timeouts, and count what comes of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fastrand::Rng;
use timingwheel::TimingWheel;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::BoxError;

/// How long a call may take, and how long it takes: one in four takes too long.
const LIMIT: Duration = Duration::from_millis(30);
const LONGEST: Duration = Duration::from_millis(40);

/// What the tasks saw.
#[derive(Default)]
pub(crate) struct Books {
    pub(crate) answered: AtomicU64,
    pub(crate) timed_out: AtomicU64,
}

impl Books {
    pub(crate) fn calls(&self) -> u64 {
        self.answered.load(Ordering::Relaxed) + self.timed_out.load(Ordering::Relaxed)
    }
}

pub(crate) struct Load {
    pub(crate) wheel: TimingWheel,
    pub(crate) books: Arc<Books>,
}

impl Load {
    /// Lets so many tasks make calls until the time is up.
    pub(crate) async fn run(self, tasks: usize, until: Instant) -> Result<(), BoxError> {
        let mut calls = JoinSet::new();
        for number in 0..tasks {
            calls.spawn(call_on(self.wheel.clone(), self.books.clone(), number as u64, until));
        }
        while let Some(ended) = calls.join_next().await {
            ended??;
        }
        Ok(())
    }
}

async fn call_on(wheel: TimingWheel, books: Arc<Books>, number: u64, until: Instant) -> Result<(), BoxError> {
    let mut random = Rng::with_seed(number);
    while Instant::now() < until {
        let takes = LONGEST.mul_f64(random.f64());
        match wheel.timeout(LIMIT, wheel.sleep(takes)).await {
            Ok(()) => books.answered.fetch_add(1, Ordering::Relaxed),
            Err(elapsed) if elapsed.reason().is_none() => books.timed_out.fetch_add(1, Ordering::Relaxed),
            Err(could_not_run) => return Err(could_not_run.into()),
        };
    }
    Ok(())
}
