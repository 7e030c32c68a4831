//! Timers beside tasks that compute are as punctual as tokio's. Lateness is counted in polls of these tasks, not in time.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use timingwheel::TimingWheel;
use tokio::runtime::Builder;
use tokio::time::Instant;

const BUSY_TASKS: usize = 400;
const ROUNDS: usize = 10;
/// As long as a runtime polls tasks between two looks at its sockets and timers, and once more.
const POLLS_BETWEEN_LOOKS: usize = 2 * 61;

fn compute_for(time: Duration) {
    let start = std::time::Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// How many polls of busy tasks a timer of ours was later than one of tokio's with the same deadline: in the median of
/// many rounds, as either may be overtaken by a look.
async fn polls_later_than_tokio() -> isize {
    let wheel = TimingWheel::new();
    let polls = Arc::new(AtomicUsize::new(0));
    let stop = Arc::new(AtomicBool::new(false));
    for _ in 0..BUSY_TASKS {
        let (polls, stop) = (polls.clone(), stop.clone());
        tokio::spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                compute_for(Duration::from_micros(10));
                polls.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
            }
        });
    }
    let mut later = Vec::new();
    for round in 0..ROUNDS {
        // At whole milliseconds and between them.
        let deadline = Instant::now() + Duration::from_micros(10_000 + 97 * round as u64);
        let [ours, tokios] = [true, false].map(|ours| {
            let (wheel, polls) = (wheel.clone(), polls.clone());
            tokio::spawn(async move {
                if ours {
                    wheel.sleep_until(deadline).await;
                } else {
                    pin!(tokio::time::sleep_until(deadline)).await;
                }
                assert!(Instant::now() >= deadline);
                polls.load(Ordering::Relaxed)
            })
        });
        let (ours, tokios) =
            (ours.await.expect("it does not panic"), tokios.await.expect("it does not panic"));
        later.push(ours.cast_signed() - tokios.cast_signed());
    }
    stop.store(true, Ordering::Relaxed);
    later.sort_unstable();
    later[ROUNDS / 2]
}

/// A driver that is a task itself is polled after all that are ready, and those that it wakes after all of them again.
#[test]
fn beside_tasks_that_compute_a_timer_is_as_punctual_as_one_of_tokios() {
    // Without an I/O driver the wheel goes by one of tokio's timers.
    let without_io = Builder::new_current_thread().enable_time().build().expect("a runtime");
    for runtime in [crate::runtime(1), crate::runtime(0), without_io] {
        let later = runtime.block_on(async { tokio::spawn(polls_later_than_tokio()).await });
        let later = later.expect("no panic");
        assert!(
            later <= POLLS_BETWEEN_LOOKS.cast_signed(),
            "{later} polls later than tokio's, on {runtime:?}"
        );
    }
}
