//! A wheel ends with its last timer also if that is dropped while the driver wakes it, and so has a reference itself.
//!
//! One test, alone in its process: threads of other tests, which keep references too, would hide it.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use timingwheel::TimingWheel;
use tokio::runtime::{Builder, Runtime};

const HANG_GUARD: Duration = Duration::from_secs(30);

/// Longer than until the driver looks again whether timers are left, for the first time.
const DELAY: Duration = Duration::from_millis(1_200);

/// By then the driver has not looked again for the second time, which would hide it.
const AT_ONCE: Duration = Duration::from_millis(500);

/// Tells that it is called, and goes on when it is told to.
struct SlowWaker {
    called: Sender<()>,
    go_on: Mutex<Receiver<()>>,
}

impl Wake for SlowWaker {
    fn wake(self: Arc<Self>) {
        self.called.send(()).unwrap();
        self.go_on.lock().unwrap().recv().unwrap();
    }
}

fn the_last_timer_is_dropped_as_it_wakes(runtime: &Runtime) -> Duration {
    let wheel = {
        let _context = runtime.enter();
        TimingWheel::builder().shards(1).build().unwrap()
    };
    let (called, calls) = channel();
    let (goes_on, go_on) = channel();
    let waker = Waker::from(Arc::new(SlowWaker { called, go_on: Mutex::new(go_on) }));
    let mut last = wheel.sleep(DELAY);
    // This thread keeps a reference beside that of `last`.
    drop(wheel.sleep(DELAY));
    assert!(last.poll_try_wait(&mut Context::from_waker(&waker)).is_pending());
    drop(wheel);

    calls.recv_timeout(HANG_GUARD).unwrap();
    drop(last);
    goes_on.send(()).unwrap();
    let start = Instant::now();
    while runtime.metrics().num_alive_tasks() > 0 {
        assert!(start.elapsed() < HANG_GUARD, "the wheel has not ended");
        thread::sleep(Duration::from_millis(1));
    }
    start.elapsed()
}

#[test]
fn a_wheel_ends_with_its_last_timer_if_that_is_dropped_as_the_driver_wakes_it() {
    let workers = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let taken = (0..3).map(|_| the_last_timer_is_dropped_as_it_wakes(&workers)).min();
    assert!(taken < Some(AT_ONCE), "it took until the driver looked again: {taken:?}");
}
