//! What repeating jobs note of their runs.

use std::sync::{Arc, Mutex};

use timingwheel::TimingWheel;
use timingwheel_jobs::{JobsExt, Repeating, Schedule};
use tokio::time::{Instant, sleep};

use crate::ms;

/// When they began, in milliseconds from the start.
#[derive(Clone)]
pub(crate) struct Runs {
    pub(crate) start: Instant,
    began: Arc<Mutex<Vec<u128>>>,
}

impl Runs {
    pub(crate) fn new() -> Self {
        Self { start: Instant::now(), began: Arc::default() }
    }

    pub(crate) fn note(&self) {
        self.began.lock().unwrap().push(self.start.elapsed().as_millis());
    }

    /// A job that notes each run, which takes as long as `lengths` says, and then no time.
    pub(crate) fn job(&self, wheel: &TimingWheel, schedule: impl Schedule, lengths: &[u64]) -> Repeating {
        let (runs, lengths) = (self.clone(), lengths.to_vec());
        let mut lengths = lengths.into_iter();
        wheel.run_by(schedule, move || {
            runs.note();
            let length = lengths.next();
            async move {
                if let Some(length) = length {
                    sleep(ms(length)).await;
                }
            }
        })
    }

    pub(crate) fn began(&self) -> Vec<u128> {
        self.began.lock().unwrap().clone()
    }
}
