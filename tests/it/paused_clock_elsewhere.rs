//! A paused clock, and threads other than the one that it belongs to.

use std::thread;
use std::time::Duration;

use timingwheel::TimingWheel;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_test::{assert_pending, task};

use crate::ms;

const HOUR: Duration = Duration::from_secs(60 * 60);

/// Runs something on a thread outside every runtime.
fn elsewhere<T: Send>(run: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(run).join().unwrap())
}

/// On workers there is one turn for both.
#[tokio::test(start_paused = true)]
async fn timers_of_several_shards_in_one_tick_fire_each_at_its_own_deadline() {
    // More than there are threads, so that each has a shard.
    let wheel = TimingWheel::builder().tick(ms(10)).shards(64).build().unwrap();
    let start = Instant::now();
    let runtime = Handle::current();
    let arm = |at| {
        // Without it the thread would see another clock.
        let _within = runtime.enter();
        let mut sleep = wheel.sleep_until(start + at);
        assert_pending!(task::spawn(&mut sleep).poll());
        sleep
    };
    for (at, sleep) in [12, 17].map(|at| (ms(at), elsewhere(|| arm(ms(at))))) {
        sleep.await;
        assert_eq!(start.elapsed(), at);
    }
}

/// Such a thread sees the real clock, which runs.
#[tokio::test(start_paused = true)]
async fn a_timer_of_a_thread_outside_the_runtime_does_not_let_a_cancelled_one_move_the_clock() {
    let wheel = TimingWheel::new();
    let start = Instant::now();
    let armed = |delay| {
        let mut sleep = Box::pin(wheel.sleep(delay));
        assert_pending!(task::spawn(&mut sleep).poll());
        sleep
    };
    let far = armed(2 * HOUR);
    // The wheel has been turned since, and knows that the clock is paused.
    tokio::task::yield_now().await;
    let near = elsewhere(|| armed(HOUR));
    drop((far, near));

    let (tell, told) = oneshot::channel();
    thread::spawn(move || {
        thread::sleep(ms(20));
        tell.send(()).unwrap();
    });
    told.await.unwrap();
    assert_eq!(start.elapsed(), Duration::ZERO, "nothing is pending, so the clock has nowhere to go");
}
