//! The moment from which lateness counts. On a running clock the tests only compare times whose order is certain.

use std::pin::pin;
use std::sync::mpsc::sync_channel;
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use timingwheel::TimingWheel;
use tokio::runtime::Runtime;
use tokio::time::{Instant, advance};

use super::{HOUR, armed, ms, tolerant};

#[tokio::test(start_paused = true)]
async fn lateness_is_from_the_deadline_until_the_driver_comes() {
    let wheel = TimingWheel::new();
    let _on_time: Vec<_> = (1..=98).map(|n| armed(&wheel, ms(n))).collect();
    for _ in 1..=98 {
        advance(ms(1)).await;
    }
    assert_eq!(wheel.stats().lateness.max(), Some(Duration::ZERO));
    // The clock jumps past these.
    let _late = [armed(&wheel, ms(100)), armed(&wheel, ms(200))];
    advance(ms(300)).await;
    let stats = wheel.stats();
    assert_eq!((stats.fired, stats.lateness.count()), (100, 100));
    let told: Vec<_> = stats.lateness.buckets().collect();
    assert_eq!(told.len(), 3);
    for ((durations, count), (late, number)) in told.iter().zip([(ms(0), 98), (ms(100), 1), (ms(200), 1)]) {
        assert!(durations.contains(&late) && *count == number, "{durations:?} for {late:?}");
    }
    assert_eq!(stats.lateness.quantile(0.98), Some(Duration::ZERO));
    assert!(stats.lateness.quantile(0.99).is_some_and(|late| late >= ms(100) && late < ms(107)));
}

#[tokio::test(start_paused = true)]
async fn a_timer_that_may_be_late_is_late_from_the_deadline_on_to_which_it_was_rounded_up() {
    let wheel = TimingWheel::new();
    let sleep = tolerant(&wheel, HOUR);
    advance(sleep.deadline() - Instant::now() + ms(5)).await;
    let lateness = wheel.stats().lateness;
    assert!(lateness.count() == 1 && lateness.max().is_some_and(|late| (ms(5)..ms(6)).contains(&late)));
}

fn one_worker() -> (Runtime, TimingWheel) {
    let runtime = crate::runtime(1);
    let wheel = runtime.block_on(async { TimingWheel::new() });
    (runtime, wheel)
}

fn wait_until_fired(wheel: &TimingWheel, fired: u64) {
    while wheel.stats().fired < fired {
        thread::yield_now();
    }
}

/// Waits until the timer has fired that `register` registers, and asserts that it was no later than that took.
fn assert_late_from_then_on(wheel: &TimingWheel, register: impl FnOnce()) {
    thread::sleep(ms(300));
    let before = Instant::now();
    register();
    wait_until_fired(wheel, 1);
    let (most, lateness) = (before.elapsed() + ms(1), wheel.stats().lateness.max());
    assert!(lateness <= Some(most * 17 / 16), "{lateness:?}, at most {most:?}");
}

#[test]
fn a_timer_that_is_first_polled_when_its_deadline_has_passed_is_not_late_for_that() {
    let (_runtime, wheel) = one_worker();
    let mut sleep = wheel.sleep(ms(1));
    assert_late_from_then_on(&wheel, || {
        assert!(sleep.poll_unconstrained(&mut Context::from_waker(Waker::noop())).is_pending());
    });
}

#[test]
fn a_timer_that_is_moved_to_a_deadline_that_has_passed_is_not_late_for_that() {
    let (_runtime, wheel) = one_worker();
    let mut sleep = pin!(armed(&wheel, HOUR));
    let soon = Instant::now() + ms(1);
    assert_late_from_then_on(&wheel, || sleep.as_mut().reset(soon));
}

#[test]
fn what_is_due_while_the_runtime_stalls_is_late_by_all_of_that() {
    let (runtime, wheel) = one_worker();
    let ((begins, begun), (ends, ended)) = (sync_channel(0), sync_channel(0));
    runtime.spawn(async move {
        begins.send(()).unwrap();
        ended.recv().unwrap();
    });
    begun.recv().unwrap();
    let _timer = armed(&wheel, ms(1));
    thread::sleep(ms(20));
    ends.send(()).unwrap();
    wait_until_fired(&wheel, 1);
    let stats = wheel.stats();
    assert_eq!(stats.stalls, 1);
    assert!(stats.lateness.max() >= Some(ms(19)), "{stats:?}");
}
