//! Futures that are polled on other runtimes and on no runtime, and timers that threads arm, move and drop at random. On
//! the real clock: the tests assert no time except that nothing is early.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use timingwheel::{Sleep, TimingWheel};
use tokio::runtime::Runtime;
use tokio::time::Instant;
use tokio_test::{assert_pending, task};

use crate::{DAY, HANG_GUARD, ms, runtime};

/// Runs a runtime on a thread of its own, so that its wheel is driven, until this is dropped.
struct Running(Arc<Runtime>, Option<(tokio::sync::oneshot::Sender<()>, thread::JoinHandle<()>)>);

impl Running {
    fn new(workers: usize) -> Self {
        let runtime = Arc::new(runtime(workers));
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let thread = thread::spawn({
            let runtime = runtime.clone();
            move || drop(runtime.block_on(stopped))
        });
        Self(runtime, Some((stop, thread)))
    }

    fn wheel(&self) -> TimingWheel {
        let _guard = self.0.enter();
        TimingWheel::new()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let (stop, thread) = self.1.take().unwrap();
        stop.send(()).unwrap();
        thread.join().unwrap();
    }
}

/// An executor that knows nothing of tokio: it parks its thread until it is woken.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let start = std::time::Instant::now();
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        thread::park_timeout(HANG_GUARD);
        assert!(start.elapsed() < HANG_GUARD, "it was not woken");
    }
}

async fn not_early(sleep: Sleep) {
    let deadline = sleep.deadline();
    sleep.await;
    assert!(Instant::now() >= deadline);
}

/// Some timers of all kinds.
async fn use_wheel(wheel: TimingWheel) {
    for micros in [0, 1, 700, 1_000, 3_500] {
        not_early(wheel.sleep(Duration::from_micros(micros))).await;
        let deadline = Instant::now() + Duration::from_micros(micros);
        assert!(wheel.timeout_at(deadline, std::future::pending::<()>()).await.is_err());
        assert!(Instant::now() >= deadline);
        assert!(wheel.timeout(DAY, wheel.sleep(Duration::from_micros(micros))).await.is_ok());
    }
    let mut moved = wheel.sleep(DAY);
    assert_pending!(task::spawn(&mut moved).poll());
    Pin::new(&mut moved).reset(Instant::now() + ms(2));
    not_early(moved).await;
}

#[test]
fn timers_fire_on_another_runtime() {
    for (ours, others) in [(0, 0), (0, 2), (2, 0), (2, 2)] {
        let ours = Running::new(ours);
        let wheel = ours.wheel();
        runtime(others).block_on(async {
            let task = tokio::spawn(use_wheel(wheel));
            tokio::time::timeout(HANG_GUARD, task).await.expect("it hangs").unwrap();
        });
    }
}

/// Without a runtime round them and with nothing else going on in the wheel's.
#[test]
fn timers_fire_on_plain_threads_with_an_executor_that_is_not_tokios() {
    for workers in [0, 1, 4] {
        let ours = Running::new(workers);
        let wheel = ours.wheel();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| block_on(use_wheel(wheel.clone())));
            }
        });
        assert_eq!(wheel.pending(), 0);
    }
}

#[test]
fn after_a_storm_on_many_threads_the_counts_add_up_and_nothing_was_early() {
    for workers in [0, 2] {
        let ours = Running::new(workers);
        let _guard = ours.0.enter();
        let wheel = TimingWheel::builder().tick(Duration::from_micros(50)).shards(3).build().unwrap();
        let end = Instant::now() + ms(300);
        let left: Vec<_> = thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| storm(&wheel, end))).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        let stats = wheel.stats();
        assert!(stats.armed > 1_000 && stats.fired > 100 && stats.cancelled > 100, "{stats:?}");
        // Timers that still have a deadline may fire meanwhile, but none is counted twice or lost.
        assert_eq!(stats.armed, stats.fired + stats.cancelled + stats.pending as u64, "{stats:?}");
        for sleep in left {
            block_on(not_early(sleep));
        }
        let stats = wheel.stats();
        assert_eq!((stats.pending, stats.armed), (0, stats.fired + stats.cancelled), "{stats:?}");
    }
}

/// Arms, polls, moves and drops timers at random, and returns what is left.
fn storm(wheel: &TimingWheel, end: Instant) -> Vec<Sleep> {
    let micros = || Duration::from_micros(fastrand::u64(0..20_000));
    let mut sleeps: Vec<Sleep> = Vec::new();
    let mut cx = Context::from_waker(Waker::noop());
    while Instant::now() < end {
        if sleeps.len() < 500 {
            sleeps.push(wheel.sleep(micros()));
        }
        let at = fastrand::usize(..sleeps.len());
        match fastrand::u8(..8) {
            0 => drop(sleeps.swap_remove(at)),
            1 => Pin::new(&mut sleeps[at]).reset(Instant::now() + micros()),
            2 => Pin::new(&mut sleeps[at]).reset(Instant::now()),
            _ => {
                let elapsed = sleeps[at].is_elapsed();
                if sleeps[at].poll_unconstrained(&mut cx).is_ready() {
                    assert!(Instant::now() >= sleeps[at].deadline());
                    drop(sleeps.swap_remove(at));
                } else {
                    assert!(!elapsed);
                }
            }
        }
    }
    sleeps
}
