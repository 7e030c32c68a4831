//! How often a wheel is turned: only when a timer is due, and once a second while dropped timers have left entries behind.
//!
//! On a multi-thread runtime, whose clock cannot be paused. The tests bound counts from above, and allow one turn more
//! than needed, for timers that come during a turn.

use std::pin::Pin;
use std::time::Duration;

use timingwheel::{Sleep, TimingWheel};
use tokio::time::Instant;
use tokio_test::task;

use crate::{DAY, armed, ms};

/// A wheel with nothing to do.
async fn idle_wheel() -> TimingWheel {
    let wheel = TimingWheel::new();
    wheel.sleep(ms(1)).await;
    tokio::time::sleep(ms(5)).await;
    wheel
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn timers_that_are_armed_moved_and_dropped_long_before_their_time_need_no_turn() {
    let wheel = idle_wheel().await;
    let before = wheel.stats().turns;
    for n in 0..1_000 {
        // Each is earlier than the one before.
        let mut sleep = armed(&wheel, DAY * 2 - ms(n));
        Pin::new(&mut sleep).reset(Instant::now() + DAY);
        Pin::new(&mut sleep).reset(Instant::now() + DAY * 3);
    }
    tokio::time::sleep(ms(20)).await;
    assert!(wheel.stats().turns <= before + 1);
    assert_eq!(wheel.pending(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_turned_while_timers_are_pending_that_are_not_due() {
    let wheel = idle_wheel().await;
    let _far: Vec<_> = (0..100).map(|n| armed(&wheel, DAY + ms(n))).collect();
    let before = wheel.stats().turns;
    tokio::time::sleep(ms(50)).await;
    assert!(wheel.stats().turns <= before + 1);
}

/// With ticks so long that the timers of one tick have deadlines of their own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn there_is_one_turn_for_what_is_due_in_one_tick_in_several_shards() {
    const TICK: Duration = ms(10);
    const TICKS: u32 = 20;
    const SHARDS: u32 = 8;
    // More than this test's threads, as threads of other tests take shards too.
    let wheel = TimingWheel::builder().tick(TICK).shards(16 * SHARDS as usize).build().unwrap();
    let start = Instant::now() + ms(100);
    let arm = |shard: u32| {
        let deadlines = (0..TICKS).map(|tick| start + TICK * tick + TICK / SHARDS * shard);
        let sleeps = deadlines.map(|deadline| {
            let mut sleep = wheel.sleep_until(deadline);
            _ = task::spawn(&mut sleep).poll();
            sleep
        });
        sleeps.collect::<Vec<Sleep>>()
    };
    let mut sleeps: Vec<Sleep> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..SHARDS).map(|shard| scope.spawn(move || arm(shard))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    for sleep in &mut sleeps {
        let deadline = sleep.deadline();
        sleep.await;
        assert!(Instant::now() >= deadline);
    }
    let stats = wheel.stats();
    assert_eq!((stats.pending, stats.fired), (0, stats.armed));
    // The deadlines begin and end within a tick. A turn that is late may be one more.
    let turns = stats.turns;
    assert!(turns <= 2 * u64::from(TICKS + 2), "{turns}");
}
