//! A timer that is dropped on another thread counts as dropped at once, and wakes nobody.

use std::cell::RefCell;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::Duration;

use timingwheel::{Sleep, TimingWheel};
use tokio::time::Instant;

use super::{
    CountingWaker, DAY, HANG_GUARD, MOST_KEPT, arm, arm_some, elsewhere, kept, ms, on_workers, sharded,
    wait_until_let_go,
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
fn a_timer_in_a_thread_local_is_dropped_with_its_thread() {
    thread_local!(static LAST: RefCell<Option<Sleep>> = const { RefCell::new(None) });
    let (_runtime, wheel) = on_workers(sharded());
    let (sleeps, wakers) = arm_some(&wheel, 2, false);
    for sleep in sleeps {
        elsewhere(|| LAST.set(Some(sleep)));
    }
    // A scope ends before its threads' locals are dropped.
    let start = Instant::now();
    while wheel.pending() > 0 && start.elapsed() < HANG_GUARD {
        thread::yield_now();
    }
    assert_eq!(wheel.stats().cancelled, 2);
    drop(wheel);
    wait_until_let_go(&wakers);
    assert_eq!(kept(&wakers), 0);
}

/// Two tasks that wait for each other without yielding are on two workers.
#[test]
fn between_workers_what_one_arms_and_the_other_drops_is_counted_and_let_go() {
    const ROUNDS: usize = 200;
    let (runtime, wheel) = on_workers(TimingWheel::builder());
    let waker = Arc::new(CountingWaker::default());
    let meeting = Arc::new(Barrier::new(2));
    let exchanged: Arc<[Mutex<Vec<Sleep>>; 2]> = Arc::default();
    let tasks = [0, 1].map(|own| {
        let (wheel, waker) = (wheel.clone(), waker.clone());
        let (meeting, exchanged) = (meeting.clone(), exchanged.clone());
        runtime.spawn(async move {
            // Told at the end, because who panicked would leave the other one waiting.
            let mut left = 0;
            for _ in 0..ROUNDS {
                // Some fire, some are dropped elsewhere as they fire, most long before.
                let durations = [ms(1), DAY, Duration::from_micros(10), DAY, DAY];
                *exchanged[own].lock().unwrap() =
                    durations.map(|duration| arm(&wheel, duration, waker.clone())).into();
                meeting.wait();
                let dropped = std::mem::take(&mut *exchanged[1 - own].lock().unwrap());
                drop(dropped);
                // Each has dropped, and neither has armed again.
                meeting.wait();
                left += wheel.pending();
                meeting.wait();
            }
            left
        })
    });
    runtime.block_on(async {
        for task in tasks {
            assert_eq!(task.await.unwrap(), 0);
        }
    });
    let stats = wheel.stats();
    assert_eq!((stats.pending, stats.fired + stats.cancelled), (0, stats.armed));
    assert!(stats.cancelled >= 2 * 3 * ROUNDS as u64);
    drop(runtime);
    assert_eq!(Arc::strong_count(&waker), 1);
    assert!(waker.woken.load(Ordering::SeqCst) as u64 <= stats.fired);
}
