//! The core's memory: taken and given back in pages of 1024 entries.
//!
//! 1. Very many entries in one bucket go out in batches, and their memory is given back.
//! 2. An empty wheel keeps one page, and uses that first.
//! 3. `capacity` is at most a page for each entry, and one more: a page stays while it holds an entry.
//!    New entries fill such pages before another page is taken.

use std::time::Duration;

use timingwheel::wheel::{Hierarchy, Key, Nanos, Progress, Resolution};

const PAGE: usize = 1024;
const FAR: u64 = 1 << 60;

/// A wheel with a tick of a millisecond.
fn wheel<T>() -> Hierarchy<T> {
    Hierarchy::new(Resolution::new(Duration::from_millis(1)).expect("not zero"), 64)
}

fn insert<T>(wheel: &mut Hierarchy<T>, deadline: u64, payload: T) -> Key {
    wheel.insert(Nanos::ZERO, Nanos(deadline), payload).ok().expect("it lies ahead")
}

#[test]
fn very_many_entries_in_one_bucket_go_out_in_batches_and_give_their_memory_back() {
    const MANY: u32 = 100_000;
    let mut wheel = wheel();
    for n in 0..MANY {
        insert(&mut wheel, 1 + u64::from(n), n);
    }
    assert_eq!((wheel.levels(), wheel.next_expiration()), (1, Some(Nanos(100_000))));

    let now = Nanos(1_500_000);
    let (mut expired, mut late_comers) = (Vec::new(), MANY);
    loop {
        let before = expired.len();
        let progress = wheel.advance(now, 256, &mut expired);
        assert!(expired.len() - before <= 256);
        if progress == Progress::Done {
            break;
        }
        assert_eq!(expired.len() - before, 256);
        // Into the tick of `now` and, far beyond it, where the bucket drained stands in the ring.
        for deadline in [1_999_999, 1_000_000 * 65] {
            wheel.insert(now, Nanos(deadline), late_comers).expect("it lies ahead");
            late_comers += 1;
        }
    }
    wheel.assert_invariants();
    assert_eq!(expired.len(), MANY as usize, "those inserted between are not due");
    assert!(wheel.capacity() <= wheel.len() + 3 * PAGE, "the late comers share pages: {}", wheel.capacity());

    assert_eq!(wheel.advance(Nanos(1_000_000 * 65), 2 * MANY as usize, &mut expired), Progress::Done);
    expired.sort_unstable();
    assert!(expired.into_iter().eq(0..late_comers), "each exactly once");
    assert!(wheel.capacity() <= 2 * PAGE, "{}", wheel.capacity());
}

#[test]
fn a_page_stays_while_anything_is_in_it_and_its_room_is_used_first() {
    let mut wheel = wheel();
    let keys: Vec<Key> = (0..10 * PAGE).map(|n| insert(&mut wheel, FAR, n)).collect();
    let is_kept = |n: usize| n % PAGE == 7;
    for (n, &key) in keys.iter().enumerate().filter(|&(n, _)| !is_kept(n)) {
        assert_eq!(wheel.cancel(key), Some(n));
        assert!(wheel.capacity() <= PAGE * (wheel.len() + 1));
    }
    assert_eq!((wheel.len(), wheel.capacity()), (10, 10 * PAGE));
    for n in 10..10 * PAGE {
        insert(&mut wheel, FAR, n);
    }
    assert_eq!((wheel.len(), wheel.capacity()), (10 * PAGE, 10 * PAGE));
}
