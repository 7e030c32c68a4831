//! An old timer is dropped on the thread that armed it.

use super::{MOST_ABANDONED, MOST_KEPT, arm_some, kept, on_workers, sharded, wait_until_let_go};

/// If this many others came after them, they are. It is looked at with every 1,024th.
const OLD: usize = YOUNG + 1_024;
/// If no more came after them, they are not.
const YOUNG: usize = 8_192;
/// As many are old, and more.
const MANY: usize = 4 * OLD;

#[test]
fn old_timers_dropped_among_very_many_are_gone_at_once_and_their_wakers_soon() {
    let (_runtime, wheel) = on_workers(sharded());
    let (sleeps, wakers) = arm_some(&wheel, MANY, false);
    let all = sleeps.len();
    let mut sleeps = sleeps.into_iter();
    sleeps.by_ref().take(MOST_KEPT).for_each(drop);
    assert_eq!(kept(&wakers[..MOST_KEPT]), MOST_KEPT, "they were taken out one by one");
    assert_eq!(wheel.pending(), all - MOST_KEPT);
    for (dropped, sleep) in (MOST_KEPT + 1..).zip(sleeps) {
        drop(sleep);
        if dropped % 1_000 < 20 {
            assert!(kept(&wakers[..dropped]) <= MOST_KEPT);
            let stats = wheel.stats();
            assert_eq!((stats.pending, stats.cancelled), (all - dropped, dropped as u64));
        }
    }
    wait_until_let_go(&wakers);
    assert_eq!(kept(&wakers), 0);
    assert_eq!((wheel.stats().fired, wheel.stats().cancelled), (0, all as u64));
}

#[test]
fn of_young_timers_no_more_than_one_leaves_its_waker_behind_also_among_very_many() {
    let (_runtime, wheel) = on_workers(sharded());
    let (mut sleeps, wakers) = arm_some(&wheel, MANY, false);
    let old = sleeps.len() - YOUNG;
    drop(sleeps.split_off(old));
    assert!(kept(&wakers[old..]) <= MOST_ABANDONED);
}

#[test]
fn old_timers_are_gone_at_once_and_their_wakers_soon_also_where_few_are_pending() {
    let (_runtime, wheel) = on_workers(sharded());
    let (mut sleeps, wakers) = arm_some(&wheel, OLD + MOST_KEPT, false);
    // The oldest stay.
    drop(sleeps.split_off(MOST_KEPT));
    wait_until_let_go(&wakers[MOST_KEPT..]);
    drop(sleeps);
    assert_eq!((wheel.pending(), kept(&wakers)), (0, MOST_KEPT));
    wait_until_let_go(&wakers);
    assert_eq!(kept(&wakers), 0);
}
