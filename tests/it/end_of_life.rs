//! How a wheel ends: by `shutdown`, with its runtime, with its last handle. Nothing hangs.

use std::future;
use std::sync::mpsc::channel;
use std::task::Poll;
use std::thread;
use std::time::Duration;

use timingwheel::{Error, Sleep, TimingWheel, time};
use tokio::runtime::Handle;
use tokio::task::yield_now;
use tokio::time::{Instant, advance};
use tokio_test::task::{Spawn, spawn};
use tokio_test::{assert_pending, assert_ready_err, assert_ready_ok};

use crate::panic_place::panic_text;
use crate::{DAY, HANG_GUARD, ms, runtime};

fn poll_wait(sleep: &mut Spawn<Sleep>) -> Poll<Result<(), Error>> {
    sleep.enter(|cx, mut sleep| sleep.poll_unconstrained(cx))
}

/// A sleep that is pending in its wheel.
fn registered(wheel: &TimingWheel, duration: Duration) -> Spawn<Sleep> {
    let mut sleep = spawn(wheel.sleep(duration));
    assert_pending!(sleep.poll());
    sleep
}

const ENDED: &str = "the timing wheel has ended: it was shut down, or its tokio runtime has ended";

#[tokio::test(start_paused = true)]
async fn shutdown_tells_how_many_were_pending_and_wakes_them_all() {
    let wheel = TimingWheel::builder().shards(3).build().unwrap();
    let mut sleeps: Vec<_> = (1..=1_000).map(|n| registered(&wheel, ms(n * n))).collect();
    let mut call = spawn(wheel.timeout(DAY, future::pending::<()>()));
    assert_pending!(call.poll());
    drop(sleeps.pop());
    let _never_polled = wheel.sleep(DAY);

    assert_eq!(wheel.shutdown(), 1_000);
    assert_eq!((wheel.shutdown(), wheel.clone().shutdown()), (0, 0));
    let stats = wheel.stats();
    assert_eq!((stats.pending, stats.armed, stats.fired, stats.cancelled), (0, 1_001, 0, 1_001));
    for sleep in &mut sleeps {
        assert!(sleep.is_woken());
        assert!(assert_ready_err!(poll_wait(sleep)).is_shutdown());
        assert!(!sleep.is_elapsed());
    }
    assert!(call.is_woken());
    assert_pending!(call.poll());
}

#[tokio::test(start_paused = true)]
async fn after_a_shutdown_a_pending_sleep_panics_and_says_why() {
    let wheel = TimingWheel::new();
    let task = tokio::spawn(wheel.sleep(DAY));
    yield_now().await;
    assert_eq!(wheel.shutdown(), 1);
    let panic = task.await.unwrap_err().into_panic();
    let text = panic.downcast::<String>().unwrap();
    assert_eq!(*text, format!("a `Sleep` cannot wait for its deadline: {ENDED}"));
}

#[tokio::test(start_paused = true)]
async fn a_task_that_waits_for_a_refused_timeout_is_told_of_its_new_deadline() {
    let wheel = TimingWheel::new();
    wheel.shutdown();
    let start = Instant::now();
    let mut timeout = spawn(wheel.timeout(ms(1000), future::pending::<()>()));
    assert_pending!(timeout.poll());
    timeout.enter(|_, timeout| timeout.reset(start + ms(10)));
    assert!(timeout.is_woken(), "it asks the wheel again");
    assert_pending!(timeout.poll());
    time::sleep(ms(10)).await;
    assert!(timeout.is_woken());
    assert_ready_err!(timeout.poll());
}

#[tokio::test(start_paused = true)]
async fn timers_made_after_a_shutdown_fail_in_the_same_ways() {
    let wheel = TimingWheel::new();
    wheel.shutdown();
    let at = Instant::now() + DAY;
    assert!(wheel.try_sleep(DAY).unwrap_err().is_shutdown());
    assert!(wheel.try_sleep_until(at).unwrap_err().is_shutdown());
    assert_eq!(wheel.sleep(DAY).wait().await.unwrap_err().to_string(), ENDED);
    assert!(panic_text(|| spawn(wheel.sleep(DAY)).poll()).ends_with(ENDED));
    assert_eq!(wheel.timeout(DAY, future::ready(1)).await, Ok(1));
    assert_eq!(wheel.stats().armed, 0);
}

#[tokio::test(start_paused = true)]
async fn after_a_shutdown_a_sleep_is_ready_once_its_deadline_has_passed() {
    let wheel = TimingWheel::new();
    let mut told = registered(&wheel, ms(10));
    let mut woken = registered(&wheel, ms(10));
    let mut unpolled = wheel.sleep(ms(10));
    wheel.shutdown();
    assert_ready_err!(poll_wait(&mut told));
    advance(ms(10)).await;
    assert_ready_ok!(poll_wait(&mut told));
    assert_ready_ok!(poll_wait(&mut woken));
    assert_eq!(unpolled.wait().await, Ok(()));
}

/// Waits until as many tasks are alive on this runtime.
async fn alive_tasks(tasks: usize) {
    let start = std::time::Instant::now();
    while Handle::current().metrics().num_alive_tasks() != tasks {
        assert!(start.elapsed() < HANG_GUARD, "{:?}", Handle::current().metrics().num_alive_tasks());
        yield_now().await;
    }
}

/// It keeps a reference for its next timer. While the clock is paused the driver does not look by itself whether there
/// are others.
#[tokio::test(start_paused = true)]
async fn on_a_paused_clock_the_driver_ends_with_the_last_timer_though_a_thread_had_one_before() {
    let wheel = TimingWheel::new();
    let sleep = wheel.sleep(DAY);
    let ((had, has_had), (goes_on, go_on)) = (channel(), channel::<()>());
    let thread = thread::spawn(move || {
        drop(wheel.sleep(DAY));
        drop(wheel);
        had.send(()).unwrap();
        go_on.recv_timeout(HANG_GUARD).unwrap();
    });
    has_had.recv_timeout(HANG_GUARD).unwrap();
    yield_now().await;
    assert_eq!(Handle::current().metrics().num_alive_tasks(), 1);
    drop(sleep);
    for _ in 0..10 {
        yield_now().await;
    }
    assert_eq!(Handle::current().metrics().num_alive_tasks(), 0);
    goes_on.send(()).unwrap();
    thread.join().unwrap();
}

#[test]
fn a_future_that_outlives_the_handle_still_fires_and_the_driver_ends_after_it() {
    for workers in [0, 2] {
        runtime(workers).block_on(async {
            let polled = TimingWheel::new().sleep(ms(5));
            let mut polled = Box::pin(polled);
            assert_pending!(spawn(polled.as_mut()).poll());
            let unpolled = TimingWheel::builder().shards(4).build().unwrap().sleep(ms(5));
            yield_now().await;
            assert_eq!(Handle::current().metrics().num_alive_tasks(), 2);
            for sleep in [polled, Box::pin(unpolled)] {
                let deadline = sleep.deadline();
                tokio::time::timeout(HANG_GUARD, sleep).await.expect("the driver has ended");
                assert!(Instant::now() >= deadline);
            }
            alive_tasks(0).await;
        });
    }
}
