//! The runtime ends, or the wheel's driver on it. Only the runtime holds the driver's task, so nothing else can abort it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Wake, Waker};

use tokio::time::Instant;
use tokio_test::{assert_ready_err, assert_ready_ok};

use super::*;

/// All that were pending have been woken, and are told of the end.
#[track_caller]
fn assert_all_told(wheel: &TimingWheel, sleeps: Vec<Sleep>, woken: &Counts) {
    let stats = assert_adds_up(wheel);
    assert_eq!((stats.pending, stats.cancelled), (0, sleeps.len() as u64));
    assert_eq!(woken.woken(), sleeps.len());
    for mut sleep in sleeps {
        let result = sleep.poll_unconstrained(&mut Context::from_waker(Waker::noop()));
        assert!(assert_ready_err!(result).is_shutdown());
    }
    assert_eq!(assert_adds_up(wheel), stats);
}

#[test]
fn a_runtime_that_is_dropped_wakes_ten_thousand_timers_also_if_it_never_ran() {
    const TIMERS: usize = 10_000;
    for workers in [0, 2] {
        let runtime = runtime(workers);
        let wheel = wheel_on(&runtime);
        let counts = Counts::due_at(Instant::now());
        let waker = Waker::from(counts.clone());
        let sleeps: Vec<_> = (0..TIMERS).map(|n| register(wheel.sleep(DAY + ms(n as u64)), &waker)).collect();
        assert_eq!(wheel.pending(), TIMERS);
        drop(runtime);
        assert_all_told(&wheel, sleeps, &counts);
    }
}

/// Runs code as it is dropped.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        self.0();
    }
}

/// tokio borrows its context while it drops such a future.
#[test]
fn a_future_that_an_ending_runtime_refuses_may_make_wheels_and_timers_as_it_is_dropped() {
    for workers in [0, 2] {
        let makes: [fn(); 2] = [
            || drop(TimingWheel::new()),
            || {
                let mut sleep = timingwheel::time::sleep(DAY);
                _ = sleep.poll_unconstrained(&mut Context::from_waker(Waker::noop()));
            },
        ];
        for make in makes {
            let (tell, made) = mpsc::channel();
            let runtime = runtime(workers);
            let spawns = OnDrop(move || {
                let tell = tell.clone();
                let refused = OnDrop(move || {
                    make();
                    tell.send(()).unwrap();
                });
                tokio::spawn(async move {
                    let _refused = &refused;
                    std::future::pending::<()>().await;
                });
            });
            runtime.spawn(async move {
                let _spawns = &spawns;
                std::future::pending::<()>().await;
            });
            drop(runtime);
            made.recv().expect("it does not panic");
        }
    }
}

/// It may block the driver itself. Then another worker has to end the wheel.
#[test]
fn a_runtime_that_is_shut_down_while_a_worker_is_blocked_wakes_what_is_pending() {
    let runtime = runtime(2);
    let wheel = wheel_on(&runtime);
    let is_released = Arc::new(AtomicBool::new(false));
    let (tell, blocked) = mpsc::channel();
    runtime.spawn({
        let is_released = is_released.clone();
        async move {
            tell.send(()).unwrap();
            wait_until("the test", || is_released.load(Ordering::SeqCst));
        }
    });
    blocked.recv().unwrap();
    let counts = Counts::due_at(Instant::now());
    let sleeps: Vec<_> = (0..1_000).map(|_| register(wheel.sleep(DAY), &counts.clone().into())).collect();
    runtime.shutdown_background();
    wait_until("the end", || counts.woken() == sleeps.len());
    assert_all_told(&wheel, sleeps, &counts);
    is_released.store(true, Ordering::SeqCst);
}

/// A task that ends its runtime as it is woken, which is in the middle of the driver's turn.
struct EndsRuntime(Mutex<Option<Runtime>>);

impl Wake for EndsRuntime {
    fn wake(self: Arc<Self>) {
        if let Some(runtime) = self.0.lock().unwrap().take() {
            runtime.shutdown_background();
        }
    }
}

#[test]
fn a_waker_may_end_the_runtime_that_the_driver_runs_on() {
    let runtime = runtime(2);
    let wheel = wheel_on(&runtime);
    let due = Instant::now() + TIME_TO_ARM;
    let ends_runtime = Arc::new(EndsRuntime(Mutex::new(None)));
    let first = register(wheel.sleep_until(due), &ends_runtime.clone().into());
    // More than the driver takes at a time, so that some of those that are due wait for its next turn.
    let counts = Counts::due_at(due);
    let due_too: Vec<_> =
        (0..1_000).map(|_| register(wheel.sleep_until(due), &counts.clone().into())).collect();
    let not_due: Vec<_> =
        (0..1_000).map(|_| register(wheel.sleep(DAY), &Counts::due_at(due).into())).collect();
    *ends_runtime.0.lock().unwrap() = Some(runtime);
    wait_until("the end", || wheel.pending() == 0 && counts.woken() == due_too.len());
    assert_eq!(counts.early(), 0);
    for mut sleep in due_too.into_iter().chain([first]) {
        assert_ready_ok!(sleep.poll_unconstrained(&mut Context::from_waker(Waker::noop())));
    }
    for mut sleep in not_due {
        assert!(
            assert_ready_err!(sleep.poll_unconstrained(&mut Context::from_waker(Waker::noop())))
                .is_shutdown()
        );
    }
    wait_until("the counts", || wheel.stats().armed == 2_001);
    assert_adds_up(&wheel);
}
