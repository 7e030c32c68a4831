//! Where futures are polled: on other runtimes, on no runtime, on threads that change. On the real clock, where the
//! only thing asserted of the time is that nothing is early.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use timingwheel::{Sleep, TimingWheel};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::LocalSet;
use tokio::time::Instant;
use tokio_test::{assert_pending, task};

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const HANG_GUARD: Duration = Duration::from_secs(30);

/// 0 workers stand for the current-thread runtime.
fn runtime(workers: usize) -> Runtime {
    match workers {
        0 => Builder::new_current_thread().enable_all().build().unwrap(),
        _ => Builder::new_multi_thread().worker_threads(workers).enable_all().build().unwrap(),
    }
}

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

/// A sleep whose timer stands in the wheel. In a struct, as an `async` block is not to return a future.
struct Registered(Sleep);

async fn registered(mut sleep: Sleep) -> Registered {
    poll_fn(|cx| {
        assert_pending!(Pin::new(&mut sleep).poll(cx));
        Poll::Ready(())
    })
    .await;
    Registered(sleep)
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
fn timers_fire_on_each_flavor_of_runtime() {
    for workers in [0, 1, 4] {
        runtime(workers).block_on(async {
            let wheel = TimingWheel::new();
            let tasks: Vec<_> = (0..50).map(|_| tokio::spawn(use_wheel(wheel.clone()))).collect();
            for task in tasks {
                tokio::time::timeout(HANG_GUARD, task).await.expect("it hangs").unwrap();
            }
            assert_eq!(wheel.pending(), 0);
        });
    }
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
fn a_sleep_may_be_polled_on_another_thread_each_time() {
    for workers in [0, 2] {
        let ours = Running::new(workers);
        let mut sleep = ours.wheel().sleep(ms(30));
        let deadline = sleep.deadline();
        let mut ready = false;
        while !ready {
            (sleep, ready) = thread::spawn(move || {
                // Each of these threads has a waker of its own.
                let (tell, told) = mpsc::channel();
                let waker = Waker::from(Arc::new(Tell(tell)));
                let ready = sleep.poll_elapsed(&mut Context::from_waker(&waker)).is_ready();
                if !ready {
                    // Woken, or for once not the last to have polled.
                    let _ = told.recv_timeout(ms(10));
                }
                (sleep, ready)
            })
            .join()
            .unwrap();
        }
        assert!(Instant::now() >= deadline);
    }
}

struct Tell(mpsc::Sender<()>);

impl Wake for Tell {
    fn wake(self: Arc<Self>) {
        let _ = self.0.send(());
    }
}

#[test]
fn timers_fire_in_a_local_set_and_on_blocking_threads() {
    for workers in [0, 2] {
        runtime(workers).block_on(async {
            let wheel = TimingWheel::new();
            let blocking = tokio::task::spawn_blocking({
                let wheel = wheel.clone();
                move || Handle::current().block_on(tokio::time::timeout(HANG_GUARD, use_wheel(wheel)))
            });
            let local = LocalSet::new();
            local
                .run_until(async {
                    let task = tokio::task::spawn_local(use_wheel(wheel.clone()));
                    tokio::time::timeout(HANG_GUARD, task).await.expect("it hangs").unwrap();
                })
                .await;
            blocking.await.unwrap().expect("it hangs");
        });
    }
}

#[test]
fn a_timer_made_on_a_worker_and_dropped_elsewhere_is_removed() {
    let ours = Running::new(2);
    let wheel = ours.wheel();
    let mut sleeps = Vec::new();
    for _ in 0..100 {
        let wheel = wheel.clone();
        let task = ours.0.spawn(async move { registered(wheel.sleep(DAY)).await });
        sleeps.push(block_on(task).unwrap());
    }
    assert_eq!(wheel.pending(), 100);
    drop(sleeps);
    assert_eq!((wheel.pending(), wheel.stats().cancelled), (0, 100));
}

#[test]
fn a_worker_that_is_blocked_does_not_hold_up_the_timers_of_others() {
    let ours = Running::new(2);
    let wheel = ours.wheel();
    let released = Arc::new(AtomicBool::new(false));
    let (started, has_started) = mpsc::channel();
    let blocked = ours.0.spawn({
        let (wheel, released) = (wheel.clone(), released.clone());
        async move {
            // An earlier deadline than any other is requested by the very worker that then blocks.
            let own = registered(wheel.sleep(ms(1))).await;
            started.send(()).unwrap();
            let start = std::time::Instant::now();
            while !released.load(Ordering::SeqCst) {
                assert!(start.elapsed() < HANG_GUARD, "the other timers waited for this worker");
                thread::sleep(ms(1));
            }
            own.0.await;
        }
    });
    has_started.recv().unwrap();
    // On a thread that is no worker, so that the blocked one cannot hold the task itself.
    block_on(async {
        for _ in 0..10 {
            not_early(wheel.sleep(ms(3))).await;
        }
    });
    released.store(true, Ordering::SeqCst);
    block_on(blocked).unwrap();
}

#[test]
fn after_a_storm_on_many_threads_the_counts_add_up_and_nothing_was_early() {
    for workers in [0, 2] {
        let ours = Running::new(workers);
        let _guard = ours.0.enter();
        let wheel = TimingWheel::builder().tick(Duration::from_micros(50)).shards(3).build().unwrap();
        let end = Instant::now() + ms(800);
        let left: Vec<_> = thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| storm(&wheel, end))).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        let stats = wheel.stats();
        assert!(stats.armed > 1_000 && stats.fired > 100 && stats.cancelled > 100, "{stats:?}");
        // Those that were left with a deadline may fire meanwhile, but none is counted twice or lost.
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
                if sleeps[at].poll_elapsed(&mut cx).is_ready() {
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
