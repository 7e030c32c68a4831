//! What has ended holds no memory, under whichever keys it was watched.
//!
//! One test, alone in its process, because it counts what the process holds.

#[path = "../../jobs/tests/it/limit.rs"]
mod limit;

use std::alloc::System;
use std::collections::VecDeque;
use std::time::Duration;

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use timingwheel::TimingWheel;
use timingwheel_purgatory::Purgatory;
use timingwheel_purgatory::Watch;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const OPERATIONS: u64 = 100_000;
/// Pending at a time.
const AT_A_TIME: usize = 100;
/// Pending at a time at the end.
const CROWD: u64 = 100_000;
/// A key that every operation has, and nobody ever checks.
const SHARED: u64 = u64::MAX;

/// The bytes that are held.
fn held() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated - stats.bytes_deallocated
}

/// Watches an operation with a kilobyte, under a key of its own and the shared one. It holds when one is checked.
fn watch(purgatory: &Purgatory<u64>, key: u64) -> Watch<Box<[u8]>> {
    let mut bytes = Some(vec![0; 1_024].into_boxed_slice());
    // It is tried twice as it is watched.
    let mut tries = 0;
    purgatory.watch([key, SHARED], DAY, move || {
        tries += 1;
        if tries > 2 { bytes.take() } else { None }
    })
}

#[tokio::test(start_paused = true)]
async fn operations_that_ended_hold_no_memory_under_a_key_that_is_never_checked() {
    limit::limit_this_test();
    let purgatory = Purgatory::new(&TimingWheel::new());
    let before = held();
    let one = watch(&purgatory, 0);
    assert!(held() - before > 1_024, "what an operation holds is counted");
    drop(one);

    let mut most = 0;
    let mut pending = VecDeque::new();
    for n in 0..OPERATIONS {
        if pending.len() == AT_A_TIME {
            let (oldest, key) = (pending.pop_front(), n - AT_A_TIME as u64);
            // Each way in which an operation ends before its time.
            match n % 3 {
                0 => {}
                1 => assert_eq!(purgatory.cancel(&key), 1),
                _ => assert_eq!(purgatory.check(&key), 1),
            }
            drop(oldest);
        }
        pending.push_back(watch(&purgatory, n));
        most = most.max(held().saturating_sub(before));
    }
    let each = most / AT_A_TIME;
    assert!(each < 2_048, "{each} bytes for each that was ever pending at a time");
    drop(pending);
    assert_eq!((purgatory.watched(), purgatory.delayed()), (0, 0));
    // A node of each shard's map may stay.
    let left = held().saturating_sub(before);
    assert!(left < 64 * 1_024, "{left} bytes are left");

    // Of very many at a time too.
    let crowd: Vec<_> = (0..CROWD).map(|n| purgatory.watch([n], DAY, || None::<()>)).collect();
    let most = held().saturating_sub(before);
    drop(crowd);
    assert_eq!(purgatory.delayed(), 0);
    let left = held().saturating_sub(before);
    assert!(left < most / 20, "{left} bytes are left of {most}");
}
