//! `Sleep::reset`: later, earlier, into the past, before the first poll, after completion.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use futures::future::FusedFuture;
use timingwheel::{Sleep, TimingWheel};
use tokio::time::{Instant, advance};
use tokio_test::{assert_pending, assert_ready, task};

use crate::{HANG_GUARD, ms};

fn reset(sleep: &mut Sleep, deadline: Instant) {
    Pin::new(sleep).reset(deadline);
}

#[tokio::test(start_paused = true)]
async fn a_sleep_moved_into_the_past_wakes_its_task_at_once() {
    let wheel = TimingWheel::new();
    advance(ms(10)).await;
    // Where the clock jumps, the wheel has not come so far: there was nothing for it to do.
    for (jump, back) in [(0, 0), (0, 1), (0, 10), (0, 11), (10, 5)] {
        let mut sleep = task::spawn(wheel.sleep(ms(1_000)));
        assert_pending!(sleep.poll());
        advance(ms(jump)).await;
        let past = Instant::now() - ms(back);
        reset(&mut sleep, past);
        assert!(sleep.is_woken(), "{back} ms back after a jump of {jump}");
        assert_eq!(wheel.pending(), 0);
        assert_ready!(sleep.poll());
    }
    let stats = wheel.stats();
    assert_eq!((stats.armed, stats.fired, stats.cancelled), (5, 0, 5));
}

#[tokio::test(start_paused = true)]
async fn the_task_that_waits_is_woken_at_the_new_deadline_without_polling_again() {
    let wheel = TimingWheel::new();
    let start = Instant::now();
    for (from, to) in [(10, 40), (100, 90)] {
        let mut sleep = wheel.sleep_until(start + ms(from));
        let mut polls = 0;
        poll_fn(|cx| {
            polls += 1;
            let poll = Pin::new(&mut sleep).poll(cx);
            if polls == 1 {
                reset(&mut sleep, start + ms(to));
            }
            poll
        })
        .await;
        assert_eq!((polls, start.elapsed()), (2, ms(to)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_sleep_moved_before_its_first_poll_is_not_registered_by_that() {
    let wheel = TimingWheel::new();
    let start = Instant::now();
    let mut sleep = wheel.sleep(ms(10));
    reset(&mut sleep, start + ms(30));
    assert_eq!(wheel.pending(), 0);
    sleep.await;
    assert_eq!(start.elapsed(), ms(30));

    let mut sleep = wheel.sleep(ms(10));
    reset(&mut sleep, start);
    assert_ready!(task::spawn(sleep).poll());
}

#[tokio::test(start_paused = true)]
async fn a_sleep_moved_after_completion_waits_again() {
    let wheel = TimingWheel::new();
    let start = Instant::now();
    let mut sleep = wheel.sleep(ms(10));
    for round in 1..=5 {
        (&mut sleep).await;
        assert_eq!(start.elapsed(), ms(10) * round);
        assert!(sleep.is_elapsed() && sleep.is_terminated());
        reset(&mut sleep, start + ms(10) * (round + 1));
        assert!(!sleep.is_elapsed() && !sleep.is_terminated());
    }
    assert_eq!((wheel.stats().armed, wheel.stats().fired), (5, 5));
}

/// Registers a sleep with the task's waker, moves it, and waits.
async fn armed_and_moved(wheel: &TimingWheel, from: Duration, to: impl Fn() -> Instant) {
    let mut sleep = wheel.sleep(from);
    // The first deadline may have passed: after a stall of this thread.
    if poll_fn(|cx| Poll::Ready(Pin::new(&mut sleep).poll(cx))).await.is_ready() {
        return;
    }
    let deadline = to();
    reset(&mut sleep, deadline);
    tokio::time::timeout(HANG_GUARD, &mut sleep).await.expect("it fires at the second deadline");
    assert!(Instant::now() >= deadline);
    assert!(sleep.is_terminated());
}

/// There nobody reads the clock when a sleep is moved: the driver finds that the deadline has passed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_the_real_clock_a_sleep_moved_into_the_past_is_ready_soon_with_nothing_else_to_wake_the_driver() {
    let wheel = TimingWheel::new();
    let backs = [Duration::ZERO, Duration::from_nanos(1), Duration::from_micros(100), ms(1), ms(3_600_000)];
    for back in backs.repeat(40) {
        armed_and_moved(&wheel, HANG_GUARD * 100, || Instant::now() - back).await;
    }
    let stats = wheel.stats();
    assert_eq!((stats.pending, stats.fired + stats.cancelled), (0, stats.armed));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_the_real_clock_no_move_to_earlier_is_lost_whatever_the_driver_is_doing() {
    const TASKS: u64 = 4;
    const ROUNDS: u64 = 400;
    let wheel = TimingWheel::builder().shards(2).build().unwrap();
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let wheel = wheel.clone();
            tokio::spawn(async move {
                for round in 0..ROUNDS {
                    // To before, at and after the turns that the others' timers make the driver take.
                    let from = if round % 2 == 0 { HANG_GUARD * 100 } else { ms(1) };
                    let ahead = Duration::from_micros((round * 7 + task * 31) % 300);
                    let behind = Duration::from_micros(50);
                    armed_and_moved(&wheel, from, || Instant::now() + ahead - behind).await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let stats = wheel.stats();
    assert_eq!((stats.pending, stats.fired + stats.cancelled), (0, stats.armed));
    assert!(stats.armed >= TASKS * ROUNDS / 2, "those that were a long way off");
}
