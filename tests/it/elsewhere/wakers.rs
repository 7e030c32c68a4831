//! Wakers of dropped timers: how many stay, until when, and what they may do then.

use std::panic::{AssertUnwindSafe, catch_unwind};

use timingwheel::TimingWheel;
use tokio::runtime::Runtime;

use super::{
    HANG_GUARD, MOST_ABANDONED, MOST_KEPT, Wakers, arm_some, drop_a_few_elsewhere, drop_one, elsewhere, kept,
    ms, on_workers, sharded, wait_until_let_go,
};

#[test]
fn the_wheel_keeps_a_few_wakers_of_dropped_timers_and_no_more() {
    let (_runtime, wheel) = on_workers(sharded());
    let (sleeps, wakers) = arm_some(&wheel, 10 * (MOST_KEPT + 1), false);
    let mut most = 0;
    for (dropped, sleep) in (1..).zip(sleeps) {
        elsewhere(|| drop(sleep));
        most = most.max(kept(&wakers[..dropped]));
    }
    assert_eq!(most, MOST_KEPT);
    assert_eq!(kept(&wakers), 0, "the last finds no room");
}

/// The two ways to leave wakers behind.
const DROPS: [fn(&TimingWheel) -> Wakers; 2] = [drop_a_few_elsewhere, drop_one];

/// The events that drop the wakers of dropped timers, besides more of these.
type Release = fn(Runtime, TimingWheel, &Wakers);

const RELEASES: [(&str, Release); 5] = [
    ("the driver, after a second", |_runtime, _wheel, wakers| wait_until_let_go(wakers)),
    ("a turn of the driver", |runtime, wheel, _| {
        let other = wheel.sleep(ms(2));
        runtime.block_on(async { tokio::time::timeout(HANG_GUARD, other).await.expect("it hangs") });
    }),
    ("a shutdown", |_runtime, wheel, _| assert_eq!(wheel.shutdown(), 0)),
    ("the end of the runtime", |runtime, _wheel, _| drop(runtime)),
    ("the end of the last handle", |_runtime, wheel, wakers| {
        drop(wheel);
        // The driver may just have been looking at the shard, and then is the last to let go of it.
        wait_until_let_go(wakers);
    }),
];

#[test]
fn wakers_of_dropped_timers_are_let_go_when_their_shard_is_looked_at_and_at_its_end_and_may_panic() {
    for drop_some in DROPS {
        for (name, release) in RELEASES {
            let (runtime, wheel) = on_workers(sharded());
            let wakers = drop_some(&wheel);
            let released = catch_unwind(AssertUnwindSafe(|| release(runtime, wheel, &wakers)));
            assert!(released.is_ok(), "wakers that panic harm nobody: by {name}");
            assert_eq!(kept(&wakers), 0, "by {name}");
        }
    }
}

#[test]
fn who_drops_one_timer_too_many_is_not_harmed_by_the_wakers_of_the_others() {
    let (_runtime, wheel) = on_workers(sharded());
    for round in 1..=3 {
        let (sleeps, _) = arm_some(&wheel, 1, false);
        let wakers = drop_a_few_elsewhere(&wheel);
        let dropped = elsewhere(|| catch_unwind(AssertUnwindSafe(|| drop(sleeps))));
        assert!(dropped.is_ok());
        assert_eq!(kept(&wakers), 0);
        let cancelled = round * (MOST_KEPT as u64 + 1);
        assert_eq!((wheel.pending(), wheel.stats().cancelled), (0, cancelled));
    }
}

#[test]
fn old_timers_dropped_among_very_many_are_gone_at_once_and_their_wakers_soon() {
    /// With so many pending in a shard, timers may be old.
    const CROWD: usize = 32_768;
    /// If this many others came after them, they are. It is looked at with every 1,024th.
    const OLD: usize = 8_192 + 1_024;
    let (_runtime, wheel) = on_workers(sharded());
    let (mut oldest, wakers) = arm_some(&wheel, CROWD + OLD, false);
    let mut sleeps = oldest.split_off(MOST_KEPT).into_iter();
    let (of_oldest, wakers) = wakers.split_at(MOST_KEPT);
    sleeps.by_ref().take(MOST_KEPT).for_each(drop);
    assert_eq!(kept(&wakers[..MOST_KEPT]), MOST_KEPT, "they were taken out one by one");
    let all = CROWD + OLD;
    assert_eq!(wheel.pending(), all - MOST_KEPT);
    for (dropped, sleep) in (MOST_KEPT + 1..).zip(sleeps) {
        drop(sleep);
        if dropped % 1_000 < 20 {
            assert!(kept(&wakers[..dropped]) <= MOST_KEPT);
            let stats = wheel.stats();
            assert_eq!((stats.pending, stats.cancelled), (all - dropped, dropped as u64));
        }
    }
    wait_until_let_go(wakers);
    assert_eq!(kept(wakers), 0);
    // Once the crowd has gone, an old timer is as any other.
    drop(oldest);
    assert!(kept(of_oldest) <= MOST_ABANDONED);
    assert_eq!((wheel.stats().fired, wheel.stats().cancelled), (0, all as u64));
}
