//! Entries with a tolerance in the core, whose deadlines `round_up_within` rounds. Unit tests of `wheel/time` show that a
//! rounded deadline is late by less than its tolerance.
//!
//! 1. With a tolerance of a seventh of its delay an entry of a wheel with 64 slots stands in one place until it is handed
//!    out, on a wheel of any tick, and whatever its clock.
//! 2. With an eighth, it moves once at most.
//! 3. Entries with near deadlines are handed out together, whatever their tolerances.
//! 4. An entry that is due when its bucket begins is handed out then, before all later entries.

use std::time::Duration;

use proptest::prelude::*;
use timingwheel::wheel::{Hierarchy, Key, Nanos, Progress, Resolution};

const TICK: u64 = 1_000_000;

fn with_tick<T>(tick: u64, slots: usize) -> Hierarchy<T> {
    Hierarchy::new(Resolution::new(Duration::from_nanos(tick)).expect("not zero"), slots)
}

const fn ms(millis: u64) -> u64 {
    millis * TICK
}

/// Inserts as of the wheel's clock.
fn insert<T>(wheel: &mut Hierarchy<T>, deadline: u64, tolerance: u64, payload: T) -> Key {
    let rounded = wheel.resolution().round_up_within(Nanos(deadline), Duration::from_nanos(tolerance));
    wheel.insert(wheel.clock(), rounded, payload).ok().expect("it lies ahead")
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

/// How often an entry moves that is inserted so long after the wheel's clock, and may be late by such a part of its delay.
fn moves(tick: u64, clock: u64, behind: u64, delay: u64, part: u64) -> u64 {
    let mut wheel = with_tick(tick, 64);
    assert_eq!(wheel.advance(Nanos(clock), 1, &mut Vec::new()), Progress::Done);
    let now = Nanos(clock + behind);
    let (deadline, tolerance) = (now.0 + delay, Duration::from_nanos(delay.div_ceil(part)));
    let rounded = wheel.resolution().round_up_within(Nanos(deadline), tolerance);
    wheel.insert(now, rounded, ()).expect("it lies ahead");
    let last = steps(&mut wheel).pop();
    assert_eq!(last, Some((rounded.0, vec![()])));
    wheel.cascaded()
}

#[test]
fn an_entry_that_may_be_late_by_a_seventh_of_its_delay_waits_in_one_place_and_by_an_eighth_moves_once_at_most()
 {
    for tick in [1, 1_000, 1 << 20, TICK, ms(3), ms(501)] {
        for clock in [0, 1, tick, 777 * tick + tick / 2, 1_000_000 * tick, 63 * tick, 511 * tick] {
            // Forty delays in each octave.
            for delay in (0..600).map(|n| ((tick * (40 + n % 40)) << (n / 40)) / 2 + 1) {
                let which = format!("{delay} from {clock}, a tick of {tick}");
                assert_eq!(moves(tick, clock, 0, delay, 7), 0, "{which}");
                assert!(moves(tick, clock, 0, delay, 8) <= 1, "{which}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_entry_that_may_be_late_by_a_seventh_of_its_delay_waits_in_one_place_at_any_tick_and_clock(
        (tick, tick_shift) in (1_u64..1 << 40, 0..40_u32),
        (clock, clock_shift) in (0_u64..1 << 62, 0..62_u32),
        behind: u64,
        (delay, delay_shift) in (1_u64..1 << 62, 0..62_u32),
    ) {
        let tick = (tick >> tick_shift).max(1);
        // A clock that is a tick behind moves with the insertion.
        let behind = behind % tick;
        let delay = (delay >> delay_shift).max(1);
        prop_assert_eq!(moves(tick, clock >> clock_shift, behind, delay, 7), 0);
    }
}

#[test]
fn entries_with_near_deadlines_are_handed_out_together_whatever_their_tolerances() {
    let mut wheel = with_tick(TICK, 64);
    // Up to 31 s, a share from 3 to 100 % each: rounded to what begins a slot, and to what lies within one.
    for n in 0..1_000 {
        let deadline = ms(30_000 + n);
        insert(&mut wheel, deadline, deadline / (1 + n % 33), n);
    }
    // Grids of 512 ms and more lie in one another.
    let handed_out: Vec<_> =
        steps(&mut wheel).into_iter().filter(|(_, entries)| !entries.is_empty()).collect();
    assert!(handed_out.iter().all(|&(at, _)| at.is_multiple_of(ms(512))), "{handed_out:?}");
    assert_eq!(handed_out.iter().map(|(_, entries)| entries.len()).sum::<usize>(), 1_000);
}

#[test]
fn an_entry_that_is_moved_later_again_and_again_is_moved_when_its_old_deadline_comes() {
    let mut wheel = with_tick(TICK, 64);
    let key = insert(&mut wheel, ms(30_000), ms(4_000), ());
    for seconds in 1..=20 {
        let later = Nanos(ms(30_000 + 1_000 * seconds));
        assert!(wheel.reschedule(key, wheel.resolution().round_up_within(later, Duration::from_secs(4))));
    }
    assert_eq!(steps(&mut wheel), [(ms(30_720), vec![]), (ms(51_200), vec![()])]);
    assert_eq!(wheel.cascaded(), 1);
}

#[test]
fn what_is_due_as_a_coarse_bucket_begins_comes_with_that_of_a_finer_one_and_before_what_is_due_later() {
    let mut wheel = with_tick(TICK, 64);
    insert(&mut wheel, ms(30_000), ms(4_000), "tolerant");
    wheel.insert(Nanos(0), Nanos(ms(30_720)), "exact").expect("it lies ahead");
    wheel.insert(Nanos(0), Nanos(ms(30_720) + 1), "after").expect("it lies ahead");
    assert_eq!(wheel.advance(Nanos(ms(30_700)), 10, &mut Vec::new()), Progress::Done);
    for (deadline, name) in [(ms(30_720) - 1, "before"), (ms(30_720), "near")] {
        wheel.insert(wheel.clock(), Nanos(deadline), name).expect("it lies ahead");
    }
    let handed_out: Vec<_> =
        steps(&mut wheel).into_iter().filter(|(_, entries)| !entries.is_empty()).collect();
    assert_eq!(
        handed_out,
        [
            // Entries of one tick of level 0 come together.
            (ms(30_720), vec!["before", "near", "tolerant", "exact"]),
            (ms(30_720) + 1, vec!["after"]),
        ]
    );
}

#[test]
fn between_two_batches_of_a_bucket_the_rest_counts_as_due_and_insertions_wait_elsewhere() {
    let mut wheel = with_tick(TICK, 64);
    for n in 0..3 {
        insert(&mut wheel, ms(96), ms(16), n);
    }
    let mut expired = Vec::new();
    let at = wheel.next_expiration().expect("three are pending");
    assert_eq!((at, wheel.advance(at, 2, &mut expired)), (Nanos(ms(96)), Progress::More));
    assert_eq!((expired.as_slice(), wheel.clock()), ([0, 1].as_slice(), at));
    assert!(wheel.handed_out_through() < at, "one is left");
    for ahead in 1..1_000 {
        wheel.insert(at, Nanos(at.0 + ms(ahead)), 10).expect("it lies ahead");
        wheel.assert_invariants();
    }
    assert_eq!(wheel.advance(at, 100, &mut expired), Progress::Done);
    assert_eq!((expired.as_slice(), wheel.handed_out_through()), ([0, 1, 2].as_slice(), at));
}
