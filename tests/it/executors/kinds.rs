//! Timers fire on each kind of runtime and executor.

use std::pin::Pin;
use std::thread;
use std::time::Duration;

use timingwheel::TimingWheel;
use tokio::runtime::Handle;
use tokio::task::LocalSet;
use tokio::time::Instant;
use tokio_test::{assert_pending, task};

use super::{DAY, HANG_GUARD, Running, block_on, ms, not_early, runtime};

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
