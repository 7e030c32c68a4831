//! A tree that several threads use at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use timingwheel::TimingWheel;
use timingwheel_deadline::{Deadline, DeadlineExt, Ended};
use tokio::time::{Instant, sleep};

use crate::ms;

/// Each future ends once, none before the earliest of its limits, and all of them end.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn futures_of_many_tasks_end_exactly_once_and_never_early() {
    let wheel = TimingWheel::new();
    let early = Arc::new(AtomicUsize::new(0));
    for round in 0..40u64 {
        let root = wheel.deadline_in(ms(20));
        let tasks: Vec<_> = (0..32u64)
            .map(|i| {
                let (deadline, early) = (root.clone(), early.clone());
                tokio::spawn(async move {
                    let deadline = match i % 3 {
                        0 => deadline,
                        1 => deadline.child(),
                        _ => deadline.child_in(Duration::from_micros(i * 700)),
                    };
                    watch(&deadline, i, &early).await;
                })
            })
            .collect();
        if round % 4 == 0 {
            sleep(ms(10)).await;
            root.cancel();
        } else {
            root.reset_after(ms(round % 15));
        }
        for task in tasks {
            task.await.unwrap();
        }
    }
    assert_eq!(early.load(Ordering::Relaxed), 0);
    assert_eq!(wheel.pending(), 0);
}

async fn watch(deadline: &Deadline, i: u64, early: &AtomicUsize) {
    // Futures that come and go, and one that stays.
    for _ in 0..i % 5 {
        let _ = deadline.run_in(Duration::from_micros(i * 90), sleep(Duration::from_micros(500))).await;
    }
    match deadline.passed().await {
        Ended::Passed if Instant::now() < deadline.instant() => {
            early.fetch_add(1, Ordering::Relaxed);
        }
        Ended::Passed | Ended::Cancelled => {}
    }
    assert!(deadline.has_ended());
}
