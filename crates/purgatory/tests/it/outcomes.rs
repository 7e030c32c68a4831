//! How an operation completes and expires.

use std::time::Duration;

use timingwheel::TimingWheel;
use timingwheel_purgatory::{Purgatory, WatchError};
use tokio::time::{Instant, advance};
use tokio_test::task::spawn;
use tokio_test::{assert_pending, assert_ready_eq};

use crate::{DAY, Level, counts, ms, never, purgatory};

#[tokio::test(start_paused = true)]
async fn what_holds_at_once_is_tried_once_and_touches_neither_keys_nor_lists_nor_the_wheel() {
    let wheel = TimingWheel::new();
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
async fn it_expires_exactly_at_its_deadline() {
    for delay in [ms(1), ms(64), ms(5_000), DAY] {
        let (purgatory, start) = (purgatory(), Instant::now());
        let watch = purgatory.watch(["key"], delay, never);
        assert_eq!(watch.deadline(), Some(start + delay));
        let until = purgatory.watch_until(["key"], start + delay, never);
        assert_eq!(counts(&purgatory), (2, 2));
        assert_eq!(tokio::join!(watch, until), (Err(WatchError::Expired), Err(WatchError::Expired)));
        assert_eq!((start.elapsed(), counts(&purgatory)), (delay, (0, 0)));
    }
}

#[tokio::test(start_paused = true)]
async fn the_longest_delay_never_comes_to_its_end() {
    let purgatory = purgatory();
    let mut watch = spawn(purgatory.watch(["key"], Duration::MAX, never));
    assert_pending!(watch.poll());
    advance(DAY * 365 * 100).await;
    assert!(!watch.is_woken());
    assert_pending!(watch.poll());
}

#[tokio::test(start_paused = true)]
async fn a_check_at_the_deadline_wins_over_it() {
    let (purgatory, level) = (purgatory(), Level::default());
    let mut watch = spawn(purgatory.watch(["key"], ms(10), level.at_least(1)));
    assert_pending!(watch.poll());
    advance(DAY).await;
    assert!(watch.is_woken());
    assert_eq!(counts(&purgatory), (1, 1), "nobody has looked");
    level.set(1);
    assert_eq!(purgatory.check("key"), 1);
    level.set(2);
    assert_ready_eq!(watch.poll(), Ok(1));
}

#[tokio::test(start_paused = true)]
async fn one_operation_may_have_ten_thousand_keys() {
    let (purgatory, level) = (purgatory(), Level::default());
    let watch = purgatory.watch((0..10_000).map(|key| key.to_string()), DAY, level.at_least(1));
    assert_eq!(counts(&purgatory), (10_000, 1));
    level.set(1);
    assert_eq!((purgatory.check("9999"), counts(&purgatory)), (1, (0, 0)));
    assert_eq!(watch.await, Ok(1));
}

#[tokio::test(start_paused = true)]
async fn the_task_that_polled_last_is_told() {
    for by_check in [true, false] {
        let (purgatory, level) = (purgatory(), Level::default());
        let mut watch = purgatory.watch(["key"], ms(10), level.at_least(1));
        let mut first = spawn(());
        let mut second = spawn(());
        let poll = |task: &mut tokio_test::task::Spawn<()>, watch: &mut _| {
            task.enter(|cx, _| Future::poll(std::pin::Pin::new(watch), cx))
        };
        assert_pending!(poll(&mut first, &mut watch));
        assert_pending!(poll(&mut second, &mut watch));
        assert_pending!(poll(&mut second, &mut watch));
        level.set(1);
        if by_check {
            purgatory.check("key");
        } else {
            advance(ms(10)).await;
        }
        assert_eq!((first.is_woken(), second.is_woken()), (false, true));
        assert_ready_eq!(poll(&mut second, &mut watch), Ok(1));
    }
}

#[tokio::test(start_paused = true)]
async fn operations_of_different_kinds_wait_under_one_key() {
    let (purgatory, level) = (purgatory(), Level::default());
    let number = purgatory.watch(["key"], DAY, level.at_least(1));
    let mut once = level.at_least(1);
    let text = purgatory.watch(["key"], DAY, move || once().map(|level| format!("level {level}")));
    level.set(1);
    assert_eq!(purgatory.check("key"), 2);
    assert_eq!((number.await, text.await.unwrap().as_str()), (Ok(1), "level 1"));
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
