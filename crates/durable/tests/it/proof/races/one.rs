//! One cancel, move or save.

use std::sync::Mutex;

use timingwheel_durable::{Cancelled, Clock, Moved};

use super::rig::{Race, Tick, at, in_all_orders, race_of, since};

fn a_cancel() -> (usize, [usize; 3]) {
    let seen = Mutex::new([0; 3]);
    let runs = in_all_orders(async |schedule| {
        let (race, due) = race_of().await;
        let durable = race.durable.clone();
        let cancel = race.task(async move { durable.cancel("k").await.unwrap() });
        race.go(&schedule, 2, 400).await;
        race.gates.open();
        let told = cancel.await.unwrap();
        let calls = race.end().await;
        let mut seen = seen.lock().unwrap();
        match told {
            Cancelled::Removed => {
                assert_eq!(calls, [], "none after it was removed");
                seen[0] += 1;
            }
            Cancelled::Running(attempt) => {
                assert_eq!((calls.len(), attempt), (1, 1));
                seen[1] += 1;
            }
            Cancelled::NotFound => {
                assert_eq!(calls.len(), 1, "it had ended");
                seen[2] += 1;
            }
        }
        assert!(calls.iter().all(|(at, _)| *at >= due), "{calls:?}, due at {due}");
    });
    (runs, seen.into_inner().unwrap())
}

#[test]
fn a_cancel_is_answered_right_in_all_orders_with_load_begin_and_settle() {
    let (runs, seen) = a_cancel();
    assert!(runs > 20 && seen.iter().all(|count| *count > 0), "{runs} runs, {seen:?}");
}

fn a_move(by: i64) -> (usize, [usize; 3]) {
    let seen = Mutex::new([0; 3]);
    let runs = in_all_orders(async |schedule| {
        let (race, due) = race_of().await;
        let durable = race.durable.clone();
        let moves = race.task(async move { durable.reschedule("k", at(due + by)).await.unwrap() });
        race.go(&schedule, 2, 400).await;
        race.gates.open();
        let told = moves.await.unwrap();
        let calls = race.end().await;
        assert_eq!(calls.len(), 1, "once, {told:?}");
        let expected = if let Moved::Moved(_) = told { due + by } else { due };
        assert_eq!(calls[0].1, expected, "{told:?}");
        assert!(calls[0].0 >= expected, "never before its time: {calls:?}");
        seen.lock().unwrap()[match told {
            Moved::Moved(_) => 0,
            Moved::Running(_) => 1,
            Moved::NotFound => 2,
        }] += 1;
    });
    (runs, seen.into_inner().unwrap())
}

#[test]
fn a_move_is_answered_right_in_all_orders_and_the_timer_comes_once_at_its_last_time() {
    for by in [5_000, -300] {
        let (runs, seen) = a_move(by);
        assert!(runs > 20 && seen.iter().all(|count| *count > 0), "{runs} runs, {seen:?}");
    }
}

#[test]
fn a_save_during_a_load_is_armed_at_once_wherever_it_is_due() {
    for due in [0, 300, 999, 1_000, 1_001, 3_000] {
        let runs = in_all_orders(async |schedule| {
            let race = Race::new().await;
            race.durable.at(at(500), &Tick).save().await.unwrap();
            race.gates.close();
            let durable = race.durable.clone();
            let saves = race.task(async move { durable.at(at(due), &Tick).save().await.unwrap() });
            race.go(&schedule, 2, 400).await;
            race.gates.open();
            saves.await.unwrap();
            let saved = since(race.clock.now());
            let mut calls = race.end().await;
            calls.retain(|(_, of)| *of == due);
            assert_eq!(calls.len(), 1 + usize::from(due == 500));
            let latest = due.max(saved) + 5;
            assert!((due..=latest).contains(&calls[0].0), "{calls:?}, due at {due}, saved by {saved}");
        });
        assert!(runs > 20, "{runs} runs");
    }
}

#[test]
fn a_move_between_two_attempts_loses_nothing_in_any_order() {
    let runs = in_all_orders(async |schedule| {
        let race = Race::new().await;
        race.durable.at(at(50), &Tick).key("again").save().await.unwrap();
        race.gates.close();
        let durable = race.durable.clone();
        let moves = race.task(async move { durable.reschedule("again", at(100)).await.unwrap() });
        race.go(&schedule, 2, 60).await;
        race.gates.open();
        moves.await.unwrap();
        let calls = race.end().await;
        assert_eq!(calls.len(), 2, "{calls:?}");
    });
    assert!(runs > 10, "{runs} runs");
}

#[test]
fn two_moves_to_and_fro_lose_nothing_in_any_order() {
    let runs = in_all_orders(async |schedule| {
        let (race, due) = race_of().await;
        let moves = [due + 5_000, due].map(|to| {
            let durable = race.durable.clone();
            race.task(async move { durable.reschedule("k", at(to)).await.unwrap() })
        });
        race.go(&schedule, 1, 400).await;
        race.gates.open();
        for told in moves {
            told.await.unwrap();
        }
        let calls = race.end().await;
        assert_eq!(calls.len(), 1, "once");
        let (called, of) = calls[0];
        assert!(called >= of && called <= of + 505, "{calls:?}");
    });
    assert!(runs > 20, "{runs} runs");
}
