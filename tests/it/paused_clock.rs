//! tokio's clock paused, resumed and advanced: the wheel follows it as tokio's own timers do, with nothing set.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use timingwheel::TimingWheel;
use tokio::sync::oneshot;
use tokio::time::{self, Instant, advance};
use tokio_test::{assert_pending, assert_ready, task};

use crate::{SECOND, ms};

type BoxedSleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The order in which tasks run that sleep for these times, once the clock was advanced past all of them.
async fn order_after_advance(millis: &[u64], sleep: impl Fn(Duration) -> BoxedSleep) -> Vec<usize> {
    let log = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for (n, &millis) in millis.iter().enumerate() {
        let (sleep, log) = (sleep(ms(millis)), log.clone());
        tasks.push(tokio::spawn(async move {
            sleep.await;
            log.lock().unwrap().push(n);
        }));
    }
    tokio::task::yield_now().await;
    advance(10 * SECOND).await;
    for task in tasks {
        task.await.unwrap();
    }
    log.lock().unwrap().clone()
}

#[tokio::test(start_paused = true)]
async fn tasks_with_the_same_deadline_run_in_the_order_in_which_tokio_runs_them() {
    let wheel = TimingWheel::new();
    for millis in [[10, 20, 10, 20, 10], [10, 500, 500, 10, 500], [5_000; 5]] {
        let tokios = order_after_advance(&millis, |duration| Box::pin(time::sleep(duration))).await;
        assert_eq!(order_after_advance(&millis, |duration| Box::pin(wheel.sleep(duration))).await, tokios);
    }
}

/// Something that happens in real time, while nothing else does.
async fn wait_for_another_thread() {
    let (tell, told) = oneshot::channel();
    thread::spawn(move || {
        thread::sleep(ms(20));
        tell.send(()).unwrap();
    });
    told.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_wheel_with_nothing_pending_lets_the_clock_stand() {
    let wheel = TimingWheel::new();
    let start = Instant::now();
    wait_for_another_thread().await;
    assert_eq!(start.elapsed(), Duration::ZERO);
    time::sleep(SECOND).await;
    assert_eq!(start.elapsed(), SECOND);
    wheel.sleep(SECOND).await;
    wait_for_another_thread().await;
    assert_eq!(start.elapsed(), 2 * SECOND);
}

#[tokio::test]
async fn a_timer_made_and_cancelled_after_a_pause_does_not_move_the_clock() {
    let wheel = TimingWheel::new();
    time::pause();
    let start = Instant::now();
    assert_pending!(task::spawn(wheel.sleep(3_600 * SECOND)).poll());
    wait_for_another_thread().await;
    assert_eq!(start.elapsed(), Duration::ZERO, "nothing is pending, so the clock has nowhere to go");
}

#[tokio::test]
async fn a_timer_armed_before_a_pause_and_dropped_after_it_does_not_move_the_clock() {
    let wheel = TimingWheel::new();
    let mut timers = [wheel.sleep(30 * SECOND), wheel.sleep(3_600 * SECOND)].map(task::spawn);
    for timer in &mut timers {
        assert_pending!(timer.poll());
    }
    time::pause();
    let start = Instant::now();
    drop(timers);
    wait_for_another_thread().await;
    assert_eq!(start.elapsed(), Duration::ZERO, "nothing is pending, so the clock has nowhere to go");
}

#[tokio::test(start_paused = true)]
async fn a_timer_moved_later_moves_the_clock_to_its_new_deadline_only() {
    let wheel = TimingWheel::new();
    let start = Instant::now();
    let mut sleep = wheel.sleep(SECOND);
    assert_pending!(task::spawn(&mut sleep).poll());
    Pin::new(&mut sleep).reset(start + 60 * SECOND);
    tokio::select! {
        () = sleep => panic!("the other is earlier"),
        () = time::sleep(59 * SECOND) => {}
    }
    assert_eq!(start.elapsed(), 59 * SECOND);
}

#[tokio::test]
async fn a_wheel_made_before_the_clock_was_paused_follows_it() {
    let wheel = TimingWheel::new();
    let mut early = task::spawn(wheel.sleep(3_600 * SECOND));
    assert_pending!(early.poll());
    wheel.sleep(ms(2)).await;
    time::pause();
    let start = Instant::now();
    wheel.sleep(1_000 * SECOND).await;
    assert!(start.elapsed() - 1_000 * SECOND <= ms(2));
    assert_pending!(early.poll());
    advance(3_600 * SECOND).await;
    assert_ready!(early.poll());
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_resumed_goes_on_from_where_it_stood() {
    let wheel = TimingWheel::new();
    let mut pending = task::spawn(wheel.sleep(ms(1_050)));
    assert_pending!(pending.poll());
    wheel.sleep(SECOND).await;
    time::resume();
    let deadline = Instant::now() + ms(20);
    let real = std::time::Instant::now();
    wheel.sleep_until(deadline).await;
    assert!(Instant::now() >= deadline);
    assert!(real.elapsed() >= ms(20), "the time is real again");
    time::pause();
    wheel.sleep(3_600 * SECOND).await;
    assert_ready!(pending.poll());
}

/// A timerfd goes by the real clock, and fires while the paused one stands.
#[tokio::test(start_paused = true)]
async fn the_real_time_that_passes_fires_nothing_on_a_paused_clock() {
    let wheel = TimingWheel::new();
    let start = Instant::now();
    let mut sleep = task::spawn(wheel.sleep(ms(5)));
    assert_pending!(sleep.poll());
    // While a blocking task runs the clock does not jump.
    tokio::task::spawn_blocking(|| thread::sleep(ms(30))).await.unwrap();
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert!(!sleep.is_woken());
    assert_pending!(sleep.poll());
    sleep.await;
    assert_eq!(start.elapsed(), ms(5));
}
