//! What the table of `Profile` says is what is counted.
//!
//! One test, alone in its process, because it counts what the whole process allocates.

use std::alloc::System;
use std::time::Duration;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use timingwheel::Profile;
use timingwheel::wheel::{Hierarchy, Nanos, Progress, Resolution};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const DOCS: &str = include_str!("../src/handle/profile.rs");
const DELAYS: [Duration; 4] =
    [Duration::from_secs(1), Duration::from_secs(30), Duration::from_secs(600), Duration::from_secs(86_400)];

fn wheel(tick: Duration, slots: usize) -> Hierarchy<()> {
    Hierarchy::new(Resolution::new(tick).expect("not zero"), slots)
}

/// How many times a timer with that delay moves, at the most, whatever the time at which it is armed.
fn most_moves(tick: Duration, slots: usize, delay: Duration) -> u64 {
    let starts = (0..50).map(|n| Nanos::from_duration(tick * 7_919 * n));
    let moves = starts.map(|start| {
        let mut wheel = wheel(tick, slots);
        assert_eq!(wheel.advance(start, 1, &mut Vec::new()), Progress::Done);
        wheel.insert(start, start.after(delay), ()).expect("it lies ahead");
        while let Some(at) = wheel.next_expiration() {
            assert_eq!(wheel.advance(at, 1, &mut Vec::new()), Progress::Done);
        }
        wheel.cascaded()
    });
    moves.max().expect("there are starts")
}

/// Bytes that the slots of a shard take, empty and after timers with all delays. Without what entries and keys take,
/// which is the same for all.
fn bytes(tick: Duration, slots: usize) -> [usize; 2] {
    let region = Region::new(ALLOCATOR);
    let mut wheel = wheel(tick, slots);
    let empty = region.change();
    let keys = DELAYS.map(|delay| wheel.insert(Nanos::ZERO, Nanos::from_duration(delay), ()));
    let full = region.change();
    let without = {
        // On level 0, all of them.
        let region = Region::new(ALLOCATOR);
        let mut one = Hierarchy::new(wheel.resolution(), slots);
        let before = region.change();
        let tick = one.resolution().tick();
        let keys = DELAYS.map(|_| one.insert(Nanos::ZERO, Nanos::from_duration(tick), ()));
        let after = region.change();
        assert!(keys.iter().all(Result::is_ok));
        live(&after) - live(&before)
    };
    assert!(keys.iter().all(Result::is_ok));
    [live(&empty), live(&full) - without]
}

fn live(stats: &stats_alloc::Stats) -> usize {
    stats.bytes_allocated - stats.bytes_deallocated
}

/// A number with its digits in groups of three.
fn grouped(number: u128) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[test]
fn the_tables_in_the_docs_are_what_is_counted() {
    let default = ("default".to_owned(), Duration::from_millis(1), 64);
    let profiles =
        Profile::all().iter().map(|profile| (format!("`{profile:?}`"), profile.tick(), profile.wheel_size()));
    let mut counted = Vec::new();
    for (name, tick, slots) in profiles.into_iter().chain([default]) {
        let moves = DELAYS.map(|delay| most_moves(tick, slots, delay).to_string()).join(" | ");
        let [empty, full] = bytes(tick, slots).map(|bytes| grouped(bytes as u128));
        let wakeups = grouped(Duration::from_secs(1).as_nanos() / tick.as_nanos());
        counted.push(format!("/// | {name} | {moves} | {empty} | {full} | {wakeups} |\n"));
    }
    let missing: String = counted.into_iter().filter(|row| !DOCS.contains(row.as_str())).collect();
    assert_eq!(missing, "", "this is what is counted");
    for &profile in Profile::all() {
        let shards = profile.shards().map_or("one for each worker".into(), |shards| shards.to_string());
        let slots = grouped(profile.wheel_size() as u128);
        let row = format!("(Self::{profile:?}) | {:?} | {slots} | {shards} |\n", profile.tick());
        let row = row.replace("ms", " ms").replace("µs", " µs");
        assert!(DOCS.contains(&row), "{row}");
    }
}
