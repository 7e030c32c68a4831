//! A paused clock, and threads other than the one that it belongs to.

use std::thread;
use std::time::Duration;

use timingwheel::TimingWheel;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_test::{assert_pending, task};

use crate::{HOUR, armed, elsewhere, ms, paused};

/// On workers there is one turn for both.
#[tokio::test(start_paused = true)]
async fn timers_of_several_shards_in_one_tick_fire_each_at_its_own_deadline() {
    // More than there are threads, so that each has a shard.
    let wheel = TimingWheel::builder().tick(ms(10)).shards(64).build().unwrap();
    let start = Instant::now();
    let arm = |at| {
        let mut sleep = wheel.sleep_until(start + at);
        assert_pending!(task::spawn(&mut sleep).poll());
        sleep
    };
    for (at, sleep) in [12, 17].map(|at| (ms(at), elsewhere(|| arm(ms(at))))) {
        sleep.await;
        assert_eq!(start.elapsed(), at);
    }
}

#[tokio::test(start_paused = true)]
async fn a_timer_of_a_thread_outside_the_runtime_does_not_let_a_cancelled_one_move_the_clock() {
    let wheel = TimingWheel::new();
    let start = Instant::now();
    let far = armed(&wheel, 2 * HOUR);
    // The wheel has been turned since, and knows that the clock is paused.
    tokio::task::yield_now().await;
    let near = elsewhere(|| armed(&wheel, HOUR));
    drop((far, near));

    let (tell, told) = oneshot::channel();
    thread::spawn(move || {
        thread::sleep(ms(20));
        tell.send(()).unwrap();
    });
    told.await.unwrap();
    assert_eq!(start.elapsed(), Duration::ZERO, "nothing is pending, so the clock has nowhere to go");
}

/// A thread outside of every runtime, and one within another runtime.
#[test]
fn threads_elsewhere_go_by_the_clock_of_the_wheels_runtime_while_it_is_paused_and_after_it_was_resumed() {
    let runtime = paused();
    let other = crate::runtime(1);
    let wheel = runtime.block_on(async { TimingWheel::new() });
    let check = || {
        let now = || {
            let _within = runtime.enter();
            Instant::now()
        };
        let before = now();
        let told = [wheel.current_time(), wheel.sleep(HOUR).deadline() - HOUR];
        let after = now();
        assert!(
            told.iter().all(|told| (before..=after).contains(told)),
            "{told:?}, not {before:?} to {after:?}"
        );
    };
    let check_elsewhere = || {
        elsewhere(check);
        elsewhere(|| other.block_on(async { check() }));
    };
    // The real clock goes on meanwhile, or stands behind.
    runtime.block_on(tokio::time::advance(HOUR));
    check_elsewhere();
    runtime.block_on(async { tokio::time::resume() });
    check_elsewhere();
}

#[test]
fn a_timer_of_a_thread_elsewhere_is_not_early_though_the_clock_was_moved_and_resumed() {
    let runtime = crate::runtime(0);
    let (wheel, start) = runtime.block_on(async {
        let wheel = TimingWheel::new();
        tokio::time::pause();
        tokio::time::advance(HOUR).await;
        tokio::time::resume();
        (wheel, Instant::now())
    });
    let delay = ms(100);
    let sleep = elsewhere(|| {
        let mut sleep = wheel.sleep(delay);
        // Armed, unless the machine held this thread up.
        _ = task::spawn(&mut sleep).poll();
        sleep
    });
    runtime.block_on(sleep);
    assert!(runtime.block_on(async { start.elapsed() }) >= delay);
}
