//! Entries with a tolerance in the core, whose deadlines `round_up_within` rounds. Unit tests of `wheel/time` show that a
//! rounded deadline is late by less than its tolerance.
//!
//! 1. With a tolerance of a seventh of its delay an entry of a wheel with 64 slots stands in one place until it is handed
//!    out, on a wheel of any tick, and whatever its clock.
//! 2. With an eighth, it moves once at most.
//! 3. An entry that is due when its bucket begins is handed out then, before all later entries.

use std::time::Duration;

use timingwheel::wheel::{Hierarchy, Nanos, Progress, Resolution};

const TICK: u64 = 1_000_000;

fn with_tick<T>(tick: u64, slots: usize) -> Hierarchy<T> {
    Hierarchy::new(Resolution::new(Duration::from_nanos(tick)).expect("not zero"), slots)
}

const fn ms(millis: u64) -> u64 {
    millis * TICK
}

/// Inserts as of the wheel's clock.
fn insert<T>(wheel: &mut Hierarchy<T>, deadline: u64, tolerance: u64, payload: T) {
    let rounded = wheel.resolution().round_up_within(Nanos(deadline), Duration::from_nanos(tolerance));
    wheel.insert(wheel.clock(), rounded, payload).ok().expect("it lies ahead");
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

/// How often an entry moves that may be late by such a part of its delay.
fn moves(tick: u64, clock: u64, delay: u64, part: u64) -> u64 {
    let mut wheel = with_tick(tick, 64);
    assert_eq!(wheel.advance(Nanos(clock), 1, &mut Vec::new()), Progress::Done);
    let now = Nanos(clock);
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
            // Some seven delays in each octave.
            for delay in (0..300).step_by(3).map(|n| ((tick * (20 + n % 20)) << (n / 20)) + 1) {
                let which = format!("{delay} from {clock}, a tick of {tick}");
                assert_eq!(moves(tick, clock, delay, 7), 0, "{which}");
                assert!(moves(tick, clock, delay, 8) <= 1, "{which}");
            }
        }
    }
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
