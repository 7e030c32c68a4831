//! What operations wait for, how their futures are told, and where outputs go: `model` and `racing` have more of that.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use timingwheel_purgatory::{Purgatory, WatchError};
use tokio::time::Instant;
use tokio_test::task::spawn;
use tokio_test::{assert_pending, assert_ready_eq};

use crate::{DAY, Level, bounded, counts, ms, never, purgatory, wheel};

#[tokio::test(start_paused = true)]
async fn what_holds_at_once_is_tried_once_and_touches_neither_keys_nor_lists_nor_the_wheel() {
    let wheel = wheel();
    let purgatory = Purgatory::<u32>::new(&wheel);
    let level = Level::default();
    let keys = std::iter::from_fn(|| panic!("nobody asked for keys"));
    let watch = purgatory.watch(keys, Duration::ZERO, level.at_least(0));
    assert_eq!((level.tries(), level.conditions()), (1, 0));
    assert_eq!((counts(&purgatory), watch.deadline()), ((0, 0), None));
    assert_eq!(watch.await, Ok(0));
    assert_eq!(wheel.stats().armed, 0);
}

#[tokio::test(start_paused = true)]
async fn the_task_that_polled_last_is_told() {
    let (purgatory, level) = (purgatory(), Level::default());
    let mut watch = purgatory.watch(["key"], DAY, level.at_least(1));
    let (mut first, mut second) = (spawn(()), spawn(()));
    let mut poll = |task: &mut tokio_test::task::Spawn<()>| task.enter(|cx, _| Pin::new(&mut watch).poll(cx));
    assert_pending!(poll(&mut first));
    assert_pending!(poll(&mut second));
    assert_pending!(poll(&mut second));
    level.set(1);
    assert_eq!(purgatory.check("key"), 1);
    assert_eq!((first.is_woken(), second.is_woken()), (false, true));
    assert_ready_eq!(poll(&mut second), Ok(1));
}

#[tokio::test(start_paused = true)]
async fn a_task_that_only_finds_operations_complete_lets_others_run() {
    let purgatory = purgatory::<u8>();
    let others = tokio::spawn(async {});
    let mut rounds = 0;
    while !others.is_finished() {
        assert_eq!(purgatory.watch([], DAY, move || Some(rounds)).await, Ok(rounds));
        rounds += 1;
        assert!(rounds < 10_000, "nobody else has run");
    }
}

#[tokio::test(start_paused = true)]
async fn with_a_tolerance_deadlines_are_shared_and_never_early() {
    let wheel = wheel();
    let purgatory: Purgatory<u64> = Purgatory::new(&wheel).with_tolerance(ms(5_000));
    let start = Instant::now();
    let watches: Vec<_> = (0..100).map(|n| purgatory.clone().watch([n], ms(10_000 + n), never)).collect();
    let mut ends = Vec::new();
    for (n, watch) in (0..).zip(watches) {
        let deadline = watch.deadline().unwrap();
        assert_eq!(watch.await, Err(WatchError::Expired));
        assert_eq!(Instant::now(), deadline);
        assert!((ms(10_000 + n)..ms(15_100)).contains(&start.elapsed()));
        ends.push(start.elapsed());
    }
    ends.dedup();
    assert!(ends.len() <= 2, "{ends:?}");
}

#[tokio::test(start_paused = true)]
async fn code_that_takes_something_back_finds_the_place_in_a_full_wheel_free() {
    let wheel = bounded();
    let (purgatory, level) = (Purgatory::new(&wheel), Level::default());
    let again = Arc::new(Mutex::new(None));
    let (next, slot) = (purgatory.clone(), again.clone());
    let first = purgatory
        .watch(["key"], DAY, level.at_least(1))
        .give_back(move |_| *slot.lock().unwrap() = Some(next.watch(["key"], DAY, || None::<()>)));
    level.set(1);
    assert_eq!(purgatory.check("key"), 1);
    drop(first);
    assert_eq!(counts(&purgatory), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn code_that_panics_as_it_takes_something_back_harms_nobody_else() {
    let purgatory = purgatory();
    let watch = purgatory.watch(["key"], DAY, || Some(())).give_back(|()| panic!("no room"));
    drop(watch);
    assert_eq!(purgatory.watch(["key"], DAY, || Some(())).await, Ok(()));
}

/// Where the clock runs, the wheel's entry keeps an operation for up to a second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nobody_wants_back_is_dropped_with_its_future_and_so_is_code_that_takes_nothing_back() {
    let purgatory = purgatory();
    let permit = Arc::new(());
    let held = permit.clone();
    drop(purgatory.watch(["other"], DAY, never).give_back(move |()| drop(held)));
    assert_eq!(Arc::strong_count(&permit), 1);
    let changed = Arc::new(AtomicBool::new(false));
    let condition = {
        let (mut handed_out, changed) = (Some(permit.clone()), changed.clone());
        move || if changed.load(Ordering::SeqCst) { handed_out.take() } else { None }
    };
    let watch = purgatory.watch(["key"], DAY, condition);
    changed.store(true, Ordering::SeqCst);
    assert_eq!(purgatory.check("key"), 1);
    drop(watch);
    assert_eq!(Arc::strong_count(&permit), 1);
}
