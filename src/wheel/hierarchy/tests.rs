use std::cell::Cell;
use std::time::Duration;

use super::*;

fn len_by_level<T>(wheel: &Hierarchy<T>) -> Vec<usize> {
    let mut counts = Vec::new();
    wheel.count_by_level(&mut counts, &[]);
    counts
}

fn wheel<T>(tick: u64, slots: usize) -> Hierarchy<T> {
    Hierarchy::new(Resolution::new(Duration::from_nanos(tick)).expect("not zero"), slots)
}

fn insert<T>(wheel: &mut Hierarchy<T>, deadline: u64, payload: T) -> Key {
    wheel.insert(Nanos::ZERO, Nanos(deadline), payload).ok().expect("it lies ahead")
}

#[test]
fn an_insertion_tells_when_its_bucket_expires() {
    let mut wheel = wheel(10, 4);
    let tell = |deadline| wheel.insert_and_tell(Nanos::ZERO, Nanos(deadline), ()).expect("it lies ahead").1;
    // Two buckets of level 0, and two of level 1, whose slots are twice as wide.
    assert_eq!([15, 13, 17, 35, 55, 57, 60, 61].map(tell), [15, 15, 17, 35, 40, 40, 60, 60].map(Nanos));
}

#[test]
fn of_several_keys_those_that_are_not_stale_take_their_entries_out() {
    let mut wheel = wheel(10, 64);
    // Three in a bucket, one in another.
    let [a, stale, b, far, _left] = [11, 12, 13, 5_000, 14].map(|at| insert(&mut wheel, at, at));
    assert_eq!(wheel.cancel(stale), Some(12));
    let never_made = Key::new(1 << 20, 0);

    let keys = [Some(far), None, Some(stale), Some(b), Some(never_made), Some(a), Some(b)];
    assert_eq!(wheel.cancel_all(keys), [Some(5_000), None, None, Some(13), None, Some(11), None]);
    assert_eq!((wheel.len(), wheel.next_expiration()), (1, Some(Nanos(14))));
    wheel.assert_invariants();
}

#[test]
fn an_entry_that_is_moved_after_idle_time_starts_at_level_0() {
    let mut wheel = wheel(10, 64);
    let key = insert(&mut wheel, 50_000, 7);
    wheel.catch_up(Nanos(4_000));
    assert_eq!(wheel.reschedule_if(key, Nanos(4_015), |payload| payload == Some(&mut 8)), None);
    let moved = wheel.reschedule_if(key, Nanos(4_015), |payload| payload == Some(&mut 7));
    assert_eq!((moved, wheel.next_expiration()), (Some(Nanos(4_015)), Some(Nanos(4_015))));
    wheel.assert_invariants();
}

#[test]
fn an_entry_that_is_moved_within_its_tick_is_waited_for() {
    let mut wheel = wheel(10, 64);
    let key = insert(&mut wheel, 13, ());
    for deadline in [18, 15, 16].map(Nanos) {
        assert!(wheel.reschedule_if(key, deadline, |_| true).is_some());
        assert_eq!(wheel.next_expiration(), Some(deadline));
    }
}

/// A caller who is told that it stays need not ask whether the clock has come to its deadline.
#[test]
fn an_entry_that_is_moved_to_the_clocks_time_does_not_stay_in_a_bucket_that_is_being_drained() {
    let mut wheel = wheel(1, 64);
    let [_, _, key] = [96, 96, 97].map(|deadline| insert(&mut wheel, deadline, ()));
    assert_eq!(wheel.advance(Nanos(96), 1, &mut Vec::new()), Progress::More);
    assert_eq!(wheel.reschedule_if(key, Nanos(96), |_| true), Some(Nanos(96)));
    wheel.assert_invariants();
}

#[test]
fn a_stale_key_moves_nobody() {
    // In a bucket that comes up before, within a bucket of level 0, and to another bucket.
    for (deadline, earlier) in [(5_000, 4_995), (18, 15), (18, 5)] {
        let mut wheel = wheel(10, 64);
        let stale = insert(&mut wheel, deadline, ());
        wheel.cancel(stale);
        assert!(!wheel.reschedule(stale, Nanos(earlier)) && !wheel.reschedule(stale, Nanos(deadline)));
        let key = insert(&mut wheel, deadline, ());
        assert_eq!(key.index(), stale.index());
        assert!(!wheel.reschedule(stale, Nanos(earlier)) && !wheel.reschedule(stale, Nanos(6_000)));
        assert_eq!(wheel.entries.get(key.index()).map(|(_, link)| link.deadline), Some(Nanos(deadline)));
        wheel.assert_invariants();
    }
}

#[test]
fn a_look_for_the_earliest_entry_is_at_the_bucket_that_begins_first_and_at_no_other() {
    let mut wheel = wheel(10, 64);
    let front = insert(&mut wheel, 15, 15);
    (0..100).for_each(|_| _ = insert(&mut wheel, 65, 65));
    (0..3).for_each(|_| _ = insert(&mut wheel, 35, 35));
    wheel.cancel(front);
    let looks = Cell::new(0);
    let rank = |&deadline: &u64| {
        looks.set(looks.get() + 1);
        Some((Nanos(deadline), ()))
    };
    assert_eq!((wheel.earliest_by(rank), looks.get()), (Some(&35), 3));
}

#[test]
fn of_entries_with_one_deadline_the_earliest_is_found_on_whatever_level_it_stands() {
    let mut wheel = wheel(1, 64);
    // On level 1 it stands in the bucket that begins with it.
    insert(&mut wheel, 80, 0);
    let _ = wheel.advance(Nanos(70), 1, &mut Vec::new());
    insert(&mut wheel, 80, 1);
    assert_eq!(len_by_level(&wheel), [1, 1]);
    assert_eq!(wheel.earliest_by(|&rank| Some((Nanos(80), rank))), Some(&0));
    assert_eq!(wheel.earliest_by(|&rank| Some((Nanos(80), 1 - rank))), Some(&1));
}

#[test]
fn entries_stand_on_the_levels_of_the_module_s_table() {
    let mut wheel = wheel(1, 3);
    for deadline in [2, 5, 12] {
        insert(&mut wheel, deadline, ());
    }
    assert_eq!(len_by_level(&wheel), [1, 1, 0, 1]);
    for (now, lens) in
        [(2, [0, 1, 0, 1]), (4, [1, 0, 0, 1]), (5, [0, 0, 0, 1]), (8, [0, 1, 0, 0]), (12, [0; 4])]
    {
        let _ = wheel.advance(Nanos(now), 10, &mut Vec::new());
        assert_eq!(len_by_level(&wheel), lens, "at {now}");
    }
}

/// With an entry at 25 and one at 1,000, on two levels.
fn two_entries() -> (Hierarchy<()>, [Key; 2]) {
    let mut wheel = wheel(10, 64);
    let keys = [25, 1_000].map(|deadline| insert(&mut wheel, deadline, ()));
    wheel.assert_invariants();
    (wheel, keys)
}

#[test]
fn the_earliest_expiration_is_found_among_all() {
    let (mut wheel, _) = two_entries();
    assert_eq!(wheel.next_expiration(), Some(Nanos(25)));
}

#[test]
#[should_panic(expected = "waits beyond its deadline")]
fn an_entry_in_a_bucket_that_is_too_late_for_it_is_noticed() {
    let (mut wheel, [_, far]) = two_entries();
    wheel.entries.get_mut(far.index()).expect("it is there").1.deadline = Nanos(500);
    wheel.assert_invariants();
}

#[test]
#[should_panic(expected = "stands where its entry does not say")]
fn an_entry_that_says_that_it_stands_elsewhere_is_noticed() {
    let (mut wheel, [near, far]) = two_entries();
    let place = wheel.entries.get(far.index()).expect("it is there").1.place;
    wheel.entries.get_mut(near.index()).expect("it is there").1.place = place;
    wheel.assert_invariants();
}

#[cfg(not(loom))]
mod properties {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_earliest_entry_has_the_earliest_deadline_and_then_the_least_rank(
            deadlines in vec((0..3_000_u64, 0..4_u8), 1..40),
            moves in vec((0..40_usize, 0..3_000_u64), 0..40),
            now in 0..3_000_u64,
        ) {
            let mut wheel = wheel(10, 4);
            let mut entries = Vec::new();
            for (at, &(deadline, rank)) in deadlines.iter().enumerate() {
                if let Ok(key) = wheel.insert(Nanos::ZERO, Nanos(deadline), (rank, at)) {
                    entries.push((key, deadline, rank, at));
                }
            }
            let (before, after) = moves.split_at(moves.len() / 2);
            let mut expired = Vec::new();
            for (moves, now) in [(before, 0), (after, now)] {
                prop_assert_eq!(wheel.advance(Nanos(now), usize::MAX, &mut expired), Progress::Done);
                entries.retain(|&(key, ..)| wheel.contains(key));
                for &(at, to) in moves {
                    if let Some((key, deadline, ..)) = entries.get_mut(at) {
                        wheel.reschedule(*key, Nanos(to));
                        *deadline = to;
                    }
                }
                let expected = entries.iter().map(|&(_, deadline, rank, at)| (deadline, rank, at)).min();
                let deadline_of = |payload: &(u8, usize)| {
                    entries.iter().find(|&&(.., at)| at == payload.1).map_or(0, |&(_, deadline, ..)| deadline)
                };
                let found = wheel.earliest_by(|payload| Some((Nanos(deadline_of(payload)), *payload))).copied();
                prop_assert_eq!(found, expected.map(|(_, rank, at)| (rank, at)));
            }
        }

        #[test]
        fn what_is_counted_by_level_leaves_out_the_keys_that_it_is_told(
            deadlines in vec(1..100_u64, 1..50),
            left_out in 0..50_usize,
        ) {
            let mut wheel = wheel(1, 3);
            let keys: Vec<Key> = deadlines.into_iter().map(|at| insert(&mut wheel, at, ())).collect();
            let left_out = &keys[..left_out.min(keys.len())];
            // Of stale keys nothing is taken off.
            let stale = insert(&mut wheel, 7, ());
            wheel.cancel(stale);
            let but = [left_out, &[stale]].concat();
            let mut counts = Vec::new();
            wheel.count_by_level(&mut counts, &but);
            for &key in left_out {
                wheel.cancel(key);
            }
            prop_assert_eq!(&counts, &len_by_level(&wheel));
            prop_assert_eq!(counts.iter().sum::<usize>(), wheel.len());
        }
    }
}
