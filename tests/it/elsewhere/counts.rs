//! A dropped timer counts as dropped at once, and wakes nobody.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::time::Instant;

use super::{
    CountingWaker, DAY, HANG_GUARD, MOST_ABANDONED, MOST_KEPT, STAY, arm, arm_some, elsewhere, kept, ms,
    on_workers, sharded,
};

#[test]
fn counts_are_exact_right_after_a_drop() {
    const TIMERS: usize = 200;
    let (_runtime, wheel) = on_workers(sharded());
    let (mut sleeps, wakers) = arm_some(&wheel, TIMERS, false);
    for round in 0.. {
        // From one to more than are kept.
        let left = sleeps.len().saturating_sub(1 + round % (2 * MOST_KEPT));
        let dropped = sleeps.split_off(left);
        elsewhere(|| drop(dropped));
        if round % 2 == 0 {
            assert_eq!(wheel.pending(), left);
        }
        let stats = wheel.stats();
        assert_eq!((stats.pending, stats.fired), (left, 0));
        assert_eq!((stats.armed, stats.cancelled), (TIMERS as u64, (TIMERS - left) as u64));
        assert!((left..=left + MOST_KEPT).contains(&kept(&wakers)));
        if left == 0 {
            break;
        }
    }
}

#[test]
fn a_timer_that_was_dropped_does_not_wake_its_task() {
    for is_dropped_elsewhere in [true, false] {
        // A run in which the deadline came before all were dropped proves nothing and is repeated.
        for patience in (0..).map(|round| ms(20) * 2_u32.pow(round)) {
            let (runtime, wheel) = on_workers(sharded());
            let waker = Arc::new(CountingWaker::default());
            let sleeps: Vec<_> = (0..MOST_KEPT).map(|_| arm(&wheel, patience, waker.clone())).collect();
            let deadline = sleeps[0].deadline();
            let last = arm(&wheel, patience + ms(5), Arc::default());
            if is_dropped_elsewhere {
                elsewhere(|| drop(sleeps));
            } else {
                drop(sleeps);
            }
            if Instant::now() < deadline {
                let kept = Arc::strong_count(&waker) - 1;
                assert!(kept == MOST_KEPT || !is_dropped_elsewhere, "they were not dropped elsewhere");
                runtime.block_on(async { tokio::time::timeout(HANG_GUARD, last).await.expect("it hangs") });
                assert_eq!(Arc::strong_count(&waker), 1);
                assert_eq!(waker.woken.load(Ordering::SeqCst), 0);
                assert_eq!((wheel.stats().fired, wheel.stats().cancelled), (1, MOST_KEPT as u64));
                break;
            }
        }
    }
}

/// The paused clock would go on to the time of a timer that is no more.
#[test]
fn with_a_bound_and_where_the_clock_can_be_paused_it_is_gone_at_once() {
    let (_runtime, bounded) = on_workers(sharded().max_pending(1));
    let current_thread = crate::runtime(0);
    let _context = current_thread.enter();
    for (wheel, is_dropped_elsewhere) in
        [bounded, sharded().build().unwrap()].iter().flat_map(|wheel| [(wheel, true), (wheel, false)])
    {
        for _ in 0..3 {
            let waker = Arc::new(CountingWaker::default());
            let sleep = arm(wheel, DAY, waker.clone());
            if is_dropped_elsewhere {
                elsewhere(|| drop(sleep));
            } else {
                drop(sleep);
            }
            assert_eq!(Arc::strong_count(&waker), 1);
        }
    }
}

#[test]
fn the_last_timer_that_was_dropped_where_it_was_armed_leaves_its_waker_to_the_next() {
    let (_runtime, wheel) = on_workers(sharded());
    let (waker, other) = (Arc::<CountingWaker>::default(), Arc::<CountingWaker>::default());
    let wakers = |waker| Arc::strong_count(waker) - 1;
    let mut kept = 0;
    for round in 1..=100 {
        let sleep = arm(&wheel, DAY, waker.clone());
        let stats = wheel.stats();
        assert_eq!((stats.pending, stats.armed, stats.cancelled), (1, round, round - 1));
        assert!((1..=MOST_ABANDONED).contains(&wakers(&waker)));
        drop(sleep);
        kept += wakers(&waker);
        let stats = wheel.stats();
        assert_eq!((stats.pending, stats.armed, stats.cancelled), (0, round, round));
        assert_eq!((wheel.pending(), stats.pending_by_level.iter().sum::<usize>()), (0, 0));
    }
    // All but where the driver came.
    assert!(kept > 0, "none was left");
    let start = Instant::now();
    let _sleep = arm(&wheel, DAY, other.clone());
    assert!(wakers(&waker) == 0 || start.elapsed() >= STAY, "the next timer is another task's");
    assert_eq!((wakers(&other), wheel.pending()), (1, 1));
}
