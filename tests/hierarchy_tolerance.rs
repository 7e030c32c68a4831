//! Entries with a tolerance in the core. That they are never early and late by less than they may be, among all others,
//! is in `hierarchy_model.rs`; here is what the tolerance buys.
//!
//! 1. With a tolerance of a 12th of its delay an entry stands in one place until it is handed out.
//! 2. Those with near deadlines are handed out together, whatever their tolerances.
//! 3. Moved later, one is moved once for each of its old deadlines that came.
//! 4. Exact entries beside them keep their nanosecond.

use std::time::Duration;

use timingwheel::wheel::{Hierarchy, Key, Nanos, Progress, Resolution};

const TICK: u64 = 1_000_000;

fn wheel<T>(slots: usize) -> Hierarchy<T> {
    with_tick(TICK, slots)
}

fn with_tick<T>(tick: u64, slots: usize) -> Hierarchy<T> {
    Hierarchy::new(Resolution::new(Duration::from_nanos(tick)).expect("not zero"), slots)
}

const fn ms(millis: u64) -> u64 {
    millis * TICK
}

/// Inserts as of the wheel's clock.
fn insert<T>(wheel: &mut Hierarchy<T>, deadline: u64, tolerance: u64, payload: T) -> Key {
    let tolerance = Duration::from_nanos(tolerance);
    let key = wheel.insert_tolerant(wheel.clock(), Nanos(deadline), tolerance, payload);
    key.ok().expect("it lies ahead")
}

fn reschedule<T>(wheel: &mut Hierarchy<T>, key: Key, deadline: u64, tolerance: u64) {
    assert!(wheel.reschedule_tolerant(key, Nanos(deadline), Duration::from_nanos(tolerance)));
    wheel.assert_invariants();
}

/// Advances to the next expiration, and returns it and what is handed out.
fn step<T>(wheel: &mut Hierarchy<T>) -> Option<(u64, Vec<T>)> {
    let at = wheel.next_expiration()?;
    let mut expired = Vec::new();
    assert_eq!(wheel.advance(at, 100_000, &mut expired), Progress::Done);
    wheel.assert_invariants();
    Some((at.0, expired))
}

fn steps<T>(wheel: &mut Hierarchy<T>) -> Vec<(u64, Vec<T>)> {
    std::iter::from_fn(|| step(wheel)).collect()
}

#[test]
fn an_entry_that_may_be_late_by_a_12th_of_its_delay_waits_in_one_place() {
    // A unit of two ticks, of nearly four, and between.
    for tick in [TICK, 1_950_000, ms(3), ms(31), ms(500), ms(501), ms(999)] {
        for slots in [2, 20, 64, 512] {
            for start in [0, 1, tick, 777 * tick + 5, 1_000_000 * tick] {
                for delay in (0..400).map(|n| ((tick * (48 + n % 40)) << (n / 40)) + n) {
                    let mut wheel = with_tick(tick, slots);
                    assert_eq!(wheel.advance(Nanos(start), 1, &mut Vec::new()), Progress::Done);
                    let (deadline, tolerance) = (start + delay, delay.div_ceil(12));
                    insert(&mut wheel, deadline, tolerance, ());
                    let steps = steps(&mut wheel);
                    let which = format!("{delay} from {start}, {slots} slots, a tick of {tick}");
                    assert_eq!((steps.len(), wheel.cascaded()), (1, 0), "{which}");
                    assert!((deadline..deadline + tolerance).contains(&steps[0].0), "{which}");
                }
            }
        }
    }
}

#[test]
fn entries_with_near_deadlines_are_handed_out_together_whatever_their_tolerances() {
    let mut wheel = wheel(64);
    // Up to 31 s, a share from 3 to 100 % each: on tolerant levels, on exact ones, and on coarser grids than needed.
    for n in 0..1_000 {
        let deadline = ms(30_000 + n);
        insert(&mut wheel, deadline, deadline / (1 + n % 33), n);
    }
    // Grids of 500 ms to 16 s lie in one another.
    let exact = |at: u64| at.is_multiple_of(ms(500));
    let handed_out: Vec<_> =
        steps(&mut wheel).into_iter().filter(|(_, entries)| !entries.is_empty()).collect();
    assert!(handed_out.iter().all(|&(at, _)| exact(at)), "{handed_out:?}");
    assert_eq!(handed_out.iter().map(|(_, entries)| entries.len()).sum::<usize>(), 1_000);
}

#[test]
fn an_entry_that_is_moved_later_again_and_again_is_moved_when_its_old_deadline_comes() {
    let mut wheel = wheel(64);
    let tolerance = ms(4_000);
    let key = insert(&mut wheel, ms(30_000), tolerance, ());
    for now in 1..=20 {
        reschedule(&mut wheel, key, ms(30_000 + now), tolerance);
    }
    let (at, expired) = step(&mut wheel).expect("it is pending");
    assert_eq!((at, expired.len(), wheel.cascaded()), (ms(32_000), 1, 0), "all of that was one grid's point");

    let key = insert(&mut wheel, at + ms(30_000), tolerance, ());
    for now in 1..=20 {
        reschedule(&mut wheel, key, at + ms(30_000 + 1_000 * now), tolerance);
    }
    let rest = steps(&mut wheel);
    assert_eq!(rest.iter().map(|(_, expired)| expired.len()).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(wheel.cascaded(), 1);
}

#[test]
fn an_exact_entry_that_gets_a_tolerance_moves_to_where_it_waits() {
    let mut wheel = wheel(64);
    let key = wheel.insert(Nanos(0), Nanos(ms(30_000)), ()).expect("it lies ahead");
    reschedule(&mut wheel, key, ms(31_000), ms(4_000));
    assert_eq!((steps(&mut wheel).len(), wheel.cascaded()), (1, 0));
}

#[test]
fn a_tolerant_entry_that_is_moved_to_an_exact_deadline_meets_it() {
    for deadline in [ms(3) + 7, ms(29_999) + 1, ms(31_999) + 1, ms(32_001), ms(90_000) + 3] {
        let mut wheel = wheel(64);
        let key = insert(&mut wheel, ms(30_000), ms(4_000), ());
        assert!(wheel.reschedule(key, Nanos(deadline)));
        wheel.assert_invariants();
        let last = steps(&mut wheel).pop().expect("it is handed out");
        assert_eq!(last, (deadline, vec![()]));
    }
}

#[test]
fn exact_entries_beside_tolerant_ones_keep_their_nanosecond() {
    let mut wheel = wheel(64);
    insert(&mut wheel, ms(30_000), ms(4_000), "tolerant");
    for (deadline, name) in [(ms(31_999) + 1, "before"), (ms(32_000) + 1, "after")] {
        wheel.insert(Nanos(0), Nanos(deadline), name).expect("it lies ahead");
    }
    let handed_out: Vec<_> =
        steps(&mut wheel).into_iter().filter(|(_, entries)| !entries.is_empty()).collect();
    assert_eq!(
        handed_out,
        [(ms(31_999) + 1, vec!["before"]), (ms(32_000), vec!["tolerant"]), (ms(32_000) + 1, vec!["after"])]
    );
}

/// A slot that is 64 further on the ring has the same bucket.
#[test]
fn an_insertion_between_two_batches_of_a_bucket_is_not_handed_out_with_it() {
    let mut wheel = wheel(2);
    for n in 0..3 {
        insert(&mut wheel, ms(40), ms(4), n);
    }
    let mut expired = Vec::new();
    let at = wheel.next_expiration().expect("three are pending");
    assert_eq!(wheel.advance(at, 2, &mut expired), Progress::More);
    assert_eq!(expired, [0, 1]);
    assert!(wheel.handed_out_through() < at, "one is left");
    for ahead in 1..200 {
        insert(&mut wheel, at.0 + ms(ahead), ms(1), 10);
        wheel.assert_invariants();
    }
    assert_eq!(wheel.advance(at, 100, &mut expired), Progress::Done);
    assert_eq!(expired, [0, 1, 2]);
}

#[test]
fn an_exact_entry_that_is_moved_later_waits_for_its_bucket_to_come_up() {
    let mut wheel = wheel(64);
    let key = insert(&mut wheel, ms(10), 0, ());
    reschedule(&mut wheel, key, ms(30), 0);
    assert_eq!(steps(&mut wheel), [(ms(10), vec![]), (ms(30), vec![()])]);
    assert_eq!(wheel.cascaded(), 1);
}
