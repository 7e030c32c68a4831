//! Two at a time.

use timingwheel_durable::{Cancelled, Clock, Moved};

use super::rig::{Race, at, in_all_orders, race_of, since};

/// Two at a time, in all orders.
fn two_at_a_time<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
    two: impl Fn(&Race, i64) -> [F; 2],
    check: impl Fn([T; 2], &[(i64, i64)], i64),
) {
    let runs = in_all_orders(async |schedule| {
        let (race, due) = race_of().await;
        let [first, second] = two(&race, due).map(|work| race.task(work));
        race.go(&schedule, 1, 700).await;
        race.gates.open();
        let told = [first.await.unwrap(), second.await.unwrap()];
        let calls = race.end().await;
        check(told, &calls, due);
    });
    assert!(runs > 20, "{runs} runs");
}

#[test]
fn two_cancels_are_answered_removed_once_at_the_most() {
    let cancel = |race: &Race, _| {
        [(); 2].map(|()| {
            let durable = race.durable.clone();
            async move { durable.cancel("k").await.unwrap() }
        })
    };
    two_at_a_time(cancel, |told, calls, _| {
        let removed = told.iter().filter(|told| **told == Cancelled::Removed).count();
        assert!(removed <= 1 && calls.len() == 1 - removed, "{told:?}, {calls:?}");
        let runs = told.iter().any(|told| matches!(told, Cancelled::Running(_)));
        assert!(!runs || calls.len() == 1, "{told:?} where no handler was called");
    });
}

#[test]
fn two_moves_of_what_may_wait_are_both_answered_right() {
    let moves = |race: &Race, due| {
        [5_000, 9_000].map(|by| {
            let durable = race.durable.clone();
            let clock = race.clock.clone();
            async move {
                let told = durable.reschedule("k", at(due + by)).await.unwrap();
                (by, told, since(clock.now()))
            }
        })
    };
    two_at_a_time(moves, |told, calls, due| {
        let [(called, of)] = calls else { panic!("once: {calls:?}") };
        assert!(called >= of, "{calls:?}");
        let moved = |(by, told, _): &(i64, Moved, i64)| matches!(told, Moved::Moved(_)).then_some(due + by);
        let moved: Vec<i64> = told.iter().filter_map(moved).collect();
        let is_where_moved = if moved.is_empty() { *of == due } else { moved.contains(of) };
        assert!(is_where_moved, "{told:?}, {calls:?}");
        for (_, told, by_then) in told {
            assert!(
                !matches!(told, Moved::Running(_)) || *called <= by_then,
                "{told:?} before it was called"
            );
        }
    });
}

#[test]
fn a_cancel_and_a_move_of_what_may_wait_are_both_answered_right() {
    enum Told {
        Cancel(Cancelled),
        Move(Moved),
    }
    let both = |race: &Race, due| {
        [true, false].map(|is_cancel| {
            let durable = race.durable.clone();
            async move {
                if is_cancel {
                    Told::Cancel(durable.cancel("k").await.unwrap())
                } else {
                    Told::Move(durable.reschedule("k", at(due + 5_000)).await.unwrap())
                }
            }
        })
    };
    two_at_a_time(both, |told, calls, _| {
        let [Told::Cancel(cancel), Told::Move(moved)] = told else { panic!("in order") };
        // Nobody else removes it.
        let expected = usize::from(cancel != Cancelled::Removed);
        assert_eq!(calls.len(), expected, "{cancel:?}, {moved:?}");
        assert!(!matches!(moved, Moved::Running(_)) || calls.len() == 1, "{cancel:?}, {moved:?}");
    });
}
