//! What a job takes of memory, and that a cancelled one gives it back, also on another worker.
//!
//! One test, alone in its process, because it counts what the whole process allocates.

#[path = "it/limit.rs"]
mod limit;

use std::alloc::System;
use std::time::Duration;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use timingwheel::TimingWheel;
use timingwheel_jobs::{Job, Jobs, JobsExt};
use tokio::runtime::Builder;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const JOBS: usize = 100_000;
const FAR: Duration = Duration::from_secs(3_600);
/// Bytes for a job whose future is a word, with its place in the list and its entry in the wheel: what a task takes, too.
/// A span comes on top.
const MOST: f64 = if cfg!(feature = "tracing") { 360.0 } else { 320.0 };

/// Blocks and bytes a job that are in use more than when `region` began.
fn in_use(region: &Region<'_, System>) -> (f64, f64) {
    let change = region.change();
    let blocks = change.allocations.cast_signed() - change.deallocations.cast_signed();
    let bytes = change.bytes_allocated.cast_signed() - change.bytes_deallocated.cast_signed();
    (blocks as f64 / JOBS as f64, bytes as f64 / JOBS as f64)
}

#[test]
fn a_job_takes_one_block_and_a_cancelled_one_gives_it_back() {
    limit::limit_this_test();
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let wheel = runtime.block_on(async { TimingWheel::new() });

    // By keys: one block each, but for the list.
    let region = Region::new(ALLOCATOR);
    let jobs = Jobs::new(&wheel);
    (0..JOBS).for_each(|key| assert!(jobs.try_run_after(key, FAR, async {}).unwrap().is_none()));
    // Whoever waits for a job no more leaves nothing with it.
    (0..JOBS).for_each(|_| drop(jobs.join(&7)));
    let (blocks, bytes) = in_use(&region);
    assert!((1.0..1.05).contains(&blocks) && bytes < MOST, "{blocks} blocks, {bytes} bytes");
    (0..JOBS).for_each(|key| assert!(jobs.remove(&key).is_some()));

    // By handles, which are told by a channel. Not by the thread that made them; and what their futures own goes at once.
    let number = Box::new(7);
    let region = Region::new(ALLOCATOR);
    let make = |_| {
        let number = number.clone();
        wheel.run_after(FAR, async move { *number })
    };
    let jobs: Vec<_> = (0..JOBS).map(make).collect();
    let (blocks, _) = in_use(&region);
    assert!((3.0..3.05).contains(&blocks), "{blocks} blocks");
    let jobs = runtime.block_on(async {
        let cancel = tokio::spawn(async move {
            assert!(jobs.iter().all(Job::cancel));
            jobs
        });
        cancel.await.unwrap()
    });
    let (blocks, _) = in_use(&region);
    assert!(blocks < 2.05, "the futures are not gone: {blocks} blocks");
    drop(jobs);
    // But for the few whose timers the wheel keeps for a while, for the next to reuse.
    let (blocks, bytes) = in_use(&region);
    assert!(blocks < 0.02, "the records are not gone: {blocks} blocks, {bytes} bytes");
}
