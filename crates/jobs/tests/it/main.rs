//! Jobs: once, again and again, by keys. On tokio's paused clock, but where it says otherwise.

mod aborts;
mod answers;
mod begins;
mod bound;
mod clocks;
mod ended;
mod ends;
mod faults;
mod joins;
mod keys;
mod keys_faults;
mod later;
mod leaves_out;
mod locks;
mod model;
mod refusals;
mod replans;
mod resets;
mod runs;
mod schedules;
mod stops;
mod strangers;
mod tolerant;

use std::thread;
use std::time::Duration;

use timingwheel_jobs::{FixedDelay, FixedRate, JobInfo, JobState, Jobs, StoppedJob};
use tokio::runtime::{Builder, Runtime};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const HANG_GUARD: Duration = Duration::from_secs(30);

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A run every period, the first one period from now.
fn rate(period: Duration) -> FixedRate {
    FixedRate::new(period).starting_after(period)
}

/// A run a delay after the one before, the first `delay` from now.
fn rest(delay: Duration) -> FixedDelay {
    FixedDelay::new(delay).starting_after(delay)
}

/// On the real clock; 0 workers stand for the current-thread runtime.
fn runtime(workers: usize) -> Runtime {
    match workers {
        0 => Builder::new_current_thread().enable_all().build().unwrap(),
        _ => Builder::new_multi_thread().worker_threads(workers).enable_all().build().unwrap(),
    }
}

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !thread::panicking() {
            panic!("the bomb");
        }
    }
}

/// Ends the jobs from outside their runtime, when what runs has come to its end.
fn stop<K: Clone + Eq + std::hash::Hash + Send + Sync + 'static>(jobs: &Jobs<K>) -> Vec<StoppedJob<K>> {
    futures::executor::block_on(jobs.shutdown(HANG_GUARD)).not_begun
}

fn state(info: Option<JobInfo>) -> Option<JobState> {
    info.map(|info| info.state)
}
