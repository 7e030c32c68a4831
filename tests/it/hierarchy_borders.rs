//! The core at its borders, of which the model says nothing.
//!
//! 1. The table in the documentation of the core is right, and how many levels there are.
//! 2. A moved entry stays in its bucket where that comes up in time.
//! 3. Emptied buckets and cancelled entries hold nothing up.

use std::time::Duration;

use timingwheel::wheel::{Hierarchy, Key, Nanos, Progress, Resolution};

fn wheel<T>(tick: u64, slots: usize) -> Hierarchy<T> {
    Hierarchy::new(Resolution::new(Duration::from_nanos(tick)).expect("not zero"), slots)
}

/// Inserts as of the wheel's clock.
fn insert<T>(wheel: &mut Hierarchy<T>, deadline: u64, payload: T) -> Key {
    wheel.insert(wheel.clock(), Nanos(deadline), payload).ok().expect("it lies ahead")
}

/// All entries that an advance to `now` hands out.
fn advance<T>(wheel: &mut Hierarchy<T>, now: u64) -> Vec<T> {
    let mut expired = Vec::new();
    assert_eq!(wheel.advance(Nanos(now), 10_000, &mut expired), Progress::Done);
    wheel.assert_invariants();
    expired
}

fn next_expiration<T>(wheel: &mut Hierarchy<T>) -> Option<u64> {
    wheel.next_expiration().map(|at| at.0)
}

/// The entries that advances from one expiration to the next hand out, and their times.
fn run<T>(wheel: &mut Hierarchy<T>) -> Vec<(u64, T)> {
    let mut expired = Vec::new();
    for _ in 0..1_000 {
        let Some(at) = next_expiration(wheel) else { return expired };
        expired.extend(advance(wheel, at).into_iter().map(|payload| (at, payload)));
    }
    panic!("it does not come to an end");
}

#[test]
fn the_table_of_buckets_in_the_documentation_is_what_happens() {
    let mut wheel = wheel(1, 3);
    for (deadline, name) in [(2, "a"), (5, "b"), (12, "c")] {
        insert(&mut wheel, deadline, name);
    }
    let mut table = Vec::new();
    while let Some(at) = next_expiration(&mut wheel) {
        table.push((at, advance(&mut wheel, at), wheel.cascaded()));
    }
    let row = |at, name: &[&'static str], moved| (at, name.to_vec(), moved);
    assert_eq!(
        table,
        [row(2, &["a"], 0), row(4, &[], 1), row(5, &["b"], 1), row(8, &[], 2), row(12, &["c"], 2),]
    );
    assert_eq!(wheel.levels(), 4);
}

#[test]
fn near_deadlines_need_one_level_and_a_hundred_years_fourteen() {
    let tick = Duration::from_micros(100);
    let mut wheel = Hierarchy::new(Resolution::new(tick).expect("not zero"), 64);
    for _ in 0..1_000 {
        let now = wheel.clock();
        for delay in [tick / 2, tick, 63 * tick] {
            insert(&mut wheel, Nanos::from_duration(now.to_duration() + delay).0, ());
        }
        advance(&mut wheel, Nanos::from_duration(now.to_duration() + 2 * tick).0);
    }
    assert_eq!(wheel.levels(), 1);
    let century = Duration::from_secs(100 * 31_557_600);
    insert(&mut wheel, Nanos::from_duration(century).0, ());
    assert_eq!(wheel.levels(), 14);
    insert(&mut wheel, u64::MAX, ());
    assert_eq!(wheel.levels(), 15);
}

#[test]
fn buckets_that_have_emptied_hold_no_clock_back() {
    let mut wheel = wheel(1, 64);
    let keys: Vec<Key> = (1..=400).map(|deadline| insert(&mut wheel, deadline, "cancelled")).collect();
    assert!(keys.into_iter().all(|key| wheel.cancel(key).is_some()));
    wheel.insert(Nanos(1_000), Nanos(1_005), "near").expect("it lies ahead");
    assert_eq!((next_expiration(&mut wheel), wheel.clock()), (Some(1_005), Nanos(1_000)));
}

#[test]
fn an_entry_moved_later_stays_in_its_bucket_until_that_comes_up() {
    let mut wheel = wheel(10, 64);
    let key = insert(&mut wheel, 35, ());
    for deadline in 36..=1_000 {
        assert!(wheel.reschedule(key, Nanos(deadline)));
        assert_eq!(next_expiration(&mut wheel), Some(deadline.min(40)));
    }
    assert!(advance(&mut wheel, 40).is_empty());
    assert_eq!(wheel.cascaded(), 1);
    assert_eq!(run(&mut wheel), [(1_000, ())]);
}

#[test]
fn an_entry_moved_earlier_stays_in_a_bucket_that_comes_up_before_its_deadline() {
    for (deadline, at, cascaded) in [(4_961, 4_960, 1), (4_960, 4_960, 0)] {
        let mut wheel = wheel(10, 64);
        // The bucket of level 1 from 4,960 on.
        let key = insert(&mut wheel, 5_000, ());
        // So near that both deadlines belong to level 0 by now.
        advance(&mut wheel, 4_900);
        assert!(wheel.reschedule(key, Nanos(deadline)));
        assert_eq!(next_expiration(&mut wheel), Some(at));
        assert_eq!((run(&mut wheel), wheel.cascaded()), (vec![(deadline, ())], cascaded));
    }
}

#[test]
fn emptied_buckets_take_nothing_of_a_batch() {
    let mut wheel = wheel(1, 64);
    let keys: Vec<Key> = (1..=30).map(|deadline| insert(&mut wheel, deadline, ())).collect();
    assert!(keys.into_iter().all(|key| wheel.cancel(key).is_some()));
    insert(&mut wheel, 31, ());
    let mut expired = Vec::new();
    assert_eq!(wheel.advance(Nanos(40), 1, &mut expired), Progress::Done);
    assert_eq!(expired, [()]);
}

#[test]
fn places_of_cancelled_entries_count_into_a_batch_32_as_one_entry() {
    let mut wheel = wheel(1, 64);
    let keys: Vec<Key> = (0..400).map(|number| insert(&mut wheel, 5, number)).collect();
    // One in the first 32 is left, and the last of all.
    for (number, &key) in keys.iter().enumerate().filter(|(number, _)| ![7, 399].contains(number)) {
        assert_eq!(wheel.cancel(key), Some(number));
    }
    let mut expired = Vec::new();
    let mut answer = || (wheel.advance(Nanos(5), 32, &mut expired), expired.clone());
    assert_eq!(answer(), (Progress::Done, vec![7, 399]));
}

#[test]
fn a_key_is_printed_as_index_and_insertion() {
    let mut wheel = wheel(1, 64);
    let first = insert(&mut wheel, 5, ());
    wheel.cancel(first);
    let second = insert(&mut wheel, 5, ());
    assert_eq!(format!("{first:?}, {second:?}"), "Key(0 of insertion 0), Key(0 of insertion 1)");
}

#[test]
#[should_panic(expected = "a batch of 0 entries: it takes at least 1")]
fn a_batch_of_nothing_is_refused() {
    let _ = wheel::<()>(1, 2).advance(Nanos(1), 0, &mut Vec::new());
}
