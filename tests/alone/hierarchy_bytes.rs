//! The core's memory in bytes, as its allocator counts them, over a simulated year of storms.
//!
//! 1. With nothing pending a wheel keeps at most one page of entries, and for each slot of its levels 48 bytes, room
//!    for 64 keys, and a bit in the queue, however many entries were pending before.
//! 2. While entries are pending, that and 40 bytes for each place in its pages, and their keys.

use std::alloc::System;
use std::time::Duration;

use super::ALLOCATOR;
use fastrand::Rng;
use stats_alloc::Region;
use timingwheel::wheel::{Hierarchy, Key, Nanos, Progress, Resolution};

const SLOTS: usize = 64;
const PAGE: usize = 1024;
const DAY: u64 = 86_400_000_000_000;
/// Of a slot: its bucket and its keys.
const SLOT_BYTES: usize = 48 + 64 * size_of::<Key>();
/// Of an entry with a word for payload: that, deadline and place, and what the page needs to find room.
const ENTRY_BYTES: usize = 40;
/// Lists of pages and of levels, and the queue's bits.
const LISTS_BYTES: usize = 16 * 1024;

fn bytes_in_use(region: &Region<'_, System>) -> usize {
    let change = region.change();
    change.bytes_allocated.saturating_sub(change.bytes_deallocated)
}

#[test]
fn a_year_of_storms_leaves_the_memory_of_the_slots_and_of_one_page() {
    if super::ran_alone(a_year_of_storms_leaves_the_memory_of_the_slots_and_of_one_page) {
        return;
    }
    let mut random = Rng::with_seed(1);
    let mut keys: Vec<Key> = Vec::with_capacity(20_000);
    let mut expired: Vec<u64> = Vec::with_capacity(20_000);
    let region = Region::new(ALLOCATOR);
    let mut wheel = Hierarchy::new(Resolution::new(Duration::from_millis(1)).expect("not zero"), SLOTS);
    for day in 0..365_u64 {
        let now = day * DAY;
        let storm = if day % 30 == 0 { 20_000 } else { 500 };
        for n in 0..storm {
            // To months ahead, as likely of each number of digits.
            let bits = random.u32(10..54);
            let delay = random.u64(1..1 << bits);
            keys.push(wheel.insert(Nanos(now), Nanos(now + delay), n).expect("it lies ahead"));
        }
        let allowed = LISTS_BYTES + wheel.levels() * SLOTS * SLOT_BYTES;
        // A list of keys grows by doubling.
        let of_entries = wheel.capacity() * ENTRY_BYTES + 2 * wheel.len() * size_of::<Key>();
        assert!(bytes_in_use(&region) <= allowed + of_entries, "{} on day {day}", bytes_in_use(&region));

        // Most are cancelled, as timeouts are.
        random.shuffle(&mut keys);
        keys.drain(keys.len() / 10..).for_each(|key| _ = wheel.cancel(key));
        while wheel.advance(Nanos(now + DAY / 2), 1_000, &mut expired) == Progress::More {}
        keys.drain(..).for_each(|key| _ = wheel.cancel(key));
        expired.clear();
        assert!(wheel.is_empty() && wheel.capacity() <= PAGE);
        let bytes = bytes_in_use(&region);
        assert!(bytes <= allowed + PAGE * ENTRY_BYTES, "{bytes} for {} levels on day {day}", wheel.levels());
    }
}
