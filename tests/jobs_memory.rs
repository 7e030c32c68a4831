//! What a job takes of memory, and that a cancelled one gives it back at once, also on another worker.
//!
//! One test, alone in its process, because it counts what the whole process allocates.

use std::alloc::System;
use std::thread;
use std::time::Duration;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use timingwheel::TimingWheel;
use timingwheel::job::{Job, Jobs};
use tokio::runtime::Builder;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const JOBS: usize = 100_000;
/// Bytes for a job whose future is a word, its entry in the wheel included.
const MOST: f64 = 136.0;
const FAR: Duration = Duration::from_secs(3_600);

/// Blocks and bytes that are in use more than when `region` began.
fn in_use(region: &Region<'_, System>) -> (isize, isize) {
    let change = region.change();
    let blocks = change.allocations.cast_signed() - change.deallocations.cast_signed();
    (blocks, change.bytes_allocated.cast_signed() - change.bytes_deallocated.cast_signed())
}

fn fill(wheel: &TimingWheel, jobs: &mut Vec<Job<u64>>) {
    let number = Box::new(7);
    jobs.extend((0..JOBS).map(|_| {
        let number = number.clone();
        wheel.run_after(FAR, async move { *number })
    }));
}

#[test]
fn a_pending_job_takes_one_block_and_a_cancelled_one_gives_all_back_at_once() {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let wheel = runtime.block_on(async { TimingWheel::builder().shards(2).build().unwrap() });
    let mut jobs = Vec::with_capacity(2 * JOBS);
    // The first make the wheel's slots and pages, so that what follows is the jobs' own.
    fill(&wheel, &mut jobs);
    let region = Region::new(ALLOCATOR);
    for job in jobs.drain(..) {
        job.cancel();
    }
    fill(&wheel, &mut jobs);
    let changed = |(blocks, bytes): (isize, isize)| (blocks as f64 / JOBS as f64, bytes as f64 / JOBS as f64);
    assert_eq!(wheel.pending(), JOBS);
    let (blocks, bytes) = changed(in_use(&region));
    assert!(
        blocks.abs() < 0.01 && bytes.abs() < 1.0,
        "one made for one cancelled: {blocks} blocks, {bytes} bytes"
    );

    fill(&wheel, &mut jobs);
    let (blocks, bytes) = changed(in_use(&region));
    // Its record, and the number that its future owns.
    assert!((2.0..2.01).contains(&blocks), "{blocks} blocks");
    let own = bytes - size_of::<u64>() as f64;
    assert!((100.0..=MOST).contains(&own), "{own} bytes");

    // Not by the thread that made them.
    let jobs = runtime.block_on(async {
        let cancel = tokio::spawn(async move {
            assert!(jobs.iter().all(Job::cancel));
            jobs
        });
        cancel.await.unwrap()
    });
    // The handles keep the records. There are twice as many as when the region began, and had futures then.
    let (blocks, _) = changed(in_use(&region));
    assert!(blocks.abs() < 0.01, "the futures are not gone: {blocks} blocks");
    drop(jobs);
    let (blocks, bytes) = changed(in_use(&region));
    assert!(blocks < -1.98 && bytes < -100.0, "the records are not gone: {blocks} blocks, {bytes} bytes");

    // Not even a few are left for later, as with a `Sleep` that is dropped elsewhere. Two threads make jobs in two
    // shards, so whichever worker cancels them is elsewhere for half.
    const FEW: isize = 20;
    let wheel = runtime.block_on(async { TimingWheel::builder().shards(2).build().unwrap() });
    let make = || (0..FEW / 2).map(|n| wheel.run_after(FAR, async move { n })).collect::<Vec<_>>();
    let jobs = thread::scope(|scope| {
        let threads = [scope.spawn(make), scope.spawn(make)];
        threads.map(|thread| thread.join().unwrap())
    });
    let region = Region::new(ALLOCATOR);
    runtime.block_on(async {
        let cancel = tokio::spawn(async move { jobs.iter().flatten().for_each(|job| assert!(job.cancel())) });
        cancel.await.unwrap();
    });
    let (blocks, _) = in_use(&region);
    assert!(blocks <= -FEW, "{} of {FEW} are left", FEW + blocks);

    // Keys, whose list keeps its memory until it is told not to.
    let jobs = Jobs::new(&wheel);
    let region = Region::new(ALLOCATOR);
    (0..JOBS).for_each(|key| assert!(jobs.try_run_after(key, FAR, async {}).unwrap().is_none()));
    (0..JOBS).for_each(|key| assert!(jobs.remove(&key).is_some()));
    let (_, before) = in_use(&region);
    jobs.shrink_to_fit();
    let (_, after) = in_use(&region);
    let list = (JOBS * size_of::<[usize; 3]>()).cast_signed();
    assert!(before - after >= list, "the list gave {} bytes back", before - after);
}
