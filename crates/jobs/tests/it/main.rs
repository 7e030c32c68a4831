//! Jobs: once, again and again, by keys. On tokio's paused clock, but where it says otherwise. Each test makes its wheel by
//! a helper from here, which ends the tests where one of them waits for ever.

mod acts;
mod bound;
mod ends;
mod keys;
mod limit;
mod model;
mod moves;
mod panics;
mod places;
mod refusals;
mod runs;
mod schedules;
mod threads;

use std::hash::Hash;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use timingwheel::{Sleep, TimingWheel};
use timingwheel_jobs::{
    FixedDelay, FixedRate, JobInfo, JobState, Jobs, JobsExt, Repeating, Schedule, StoppedJob,
};
use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, sleep};

use crate::acts::{DAY, ms, when_dropped, when_woken};
use crate::limit::limit_this_test;

const HANG_GUARD: Duration = Duration::from_secs(30);

/// A run every period, the first one period from now.
fn rate(period: Duration) -> FixedRate {
    FixedRate::new(period).starting_after(period)
}

/// A run a delay after the one before, the first `delay` from now.
fn rest(delay: Duration) -> FixedDelay {
    FixedDelay::new(delay).starting_after(delay)
}

fn wheel() -> TimingWheel {
    limit_this_test();
    TimingWheel::new()
}

/// The future of a run that panics.
async fn panics(text: &'static str) {
    panic!("{text}");
}

/// On the real clock; 0 workers stand for the current-thread runtime.
fn runtime(workers: usize) -> Runtime {
    limit_this_test();
    match workers {
        0 => Builder::new_current_thread().enable_all().build().unwrap(),
        _ => Builder::new_multi_thread().worker_threads(workers).enable_all().build().unwrap(),
    }
}

/// A wheel in which each timer that is armed drops the waker that a dropped one has left.
fn one_shard() -> TimingWheel {
    limit_this_test();
    TimingWheel::builder().shards(1).build().unwrap()
}

fn bounded(max_pending: usize) -> TimingWheel {
    limit_this_test();
    TimingWheel::builder().max_pending(max_pending).build().unwrap()
}

/// Takes all places that are free.
fn fill(wheel: &TimingWheel) -> Vec<Sleep> {
    std::iter::from_fn(|| wheel.try_sleep(DAY).ok()).collect()
}

/// How many places are free.
fn free(wheel: &TimingWheel) -> usize {
    fill(wheel).len()
}

/// `make`, which also owns something.
fn owning<F>(owned: impl Send + 'static, mut make: impl FnMut() -> F + Send) -> impl FnMut() -> F + Send {
    move || {
        let _owned = &owned;
        make()
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

/// Panics when it is dropped, also while another panic goes on.
struct Always;

impl Drop for Always {
    fn drop(&mut self) {
        panic!("always");
    }
}

/// A timer that waits by this waker. When it is dropped, it leaves the waker in the wheel until another is armed in its shard.
fn wait_by(waker: &Waker, mut sleep: Sleep) -> Sleep {
    assert!(sleep.poll_unconstrained(&mut Context::from_waker(waker)).is_pending());
    sleep
}

fn state(info: Option<JobInfo>) -> Option<JobState> {
    info.map(|info| info.state)
}

/// Ends the jobs from outside their runtime, when what runs has come to its end.
fn stop<K: Clone + Eq + Hash + Send + Sync + 'static>(jobs: &Jobs<K>) -> Vec<StoppedJob<K>> {
    futures::executor::block_on(jobs.shutdown(HANG_GUARD)).not_begun
}

/// When runs began, in milliseconds from the start.
#[derive(Clone)]
struct Runs {
    start: Instant,
    began: Arc<Mutex<Vec<u128>>>,
}

impl Runs {
    fn new() -> Self {
        Self { start: Instant::now(), began: Arc::default() }
    }

    fn note(&self) {
        self.began.lock().unwrap().push(self.start.elapsed().as_millis());
    }

    /// A job that notes each run, which takes as long as `lengths` says, and then no time.
    fn job(&self, wheel: &TimingWheel, schedule: impl Schedule, lengths: &[u64]) -> Repeating {
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

    fn began(&self) -> Vec<u128> {
        self.began.lock().unwrap().clone()
    }
}
