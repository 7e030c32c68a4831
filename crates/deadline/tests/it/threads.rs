//! Deadlines that several threads use at once.

use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
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
            root.extend(ms(20 + round % 15));
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
        let call = deadline.run_within(Duration::from_micros(i * 90), sleep(Duration::from_micros(500)));
        let _end = call.await;
    }
    let end = deadline.run(pending::<()>()).await.unwrap_err();
    if end == Ended::Passed && deadline.instant().is_some_and(|at| Instant::now() < at) {
        early.fetch_add(1, Ordering::Relaxed);
    }
    assert_eq!(deadline.end(), Some(end));
}

/// One thread extends, one cancels, and others look, as the instant comes: exactly one of them ends it, and what was seen
/// ended is not extended any more.
#[test]
fn one_end_wins_and_nobody_extends_what_another_thread_has_seen_ended() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let wheel = runtime.block_on(async { TimingWheel::new() });
    for round in 0..400u32 {
        let deadline = wheel.deadline_in(Duration::from_micros(100));
        let begin = Barrier::new(4);
        let wait = || {
            begin.wait();
            while Instant::now() < deadline.instant().unwrap() - Duration::from_nanos(300) {}
        };
        let (extended, cancelled, seen) = thread::scope(|scope| {
            let extends = scope.spawn(|| {
                wait();
                let extended = deadline.extend(Duration::from_secs(3600));
                (extended, deadline.end())
            });
            let cancels = scope.spawn(|| {
                wait();
                (round % 2 == 0).then(|| deadline.cancel())
            });
            let looks = [(); 2].map(|()| {
                scope.spawn(|| {
                    wait();
                    (0..100).find_map(|_| deadline.end())
                })
            });
            (extends.join().unwrap(), cancels.join().unwrap(), looks.map(|it| it.join().unwrap()))
        });
        let end = deadline.end();
        for seen in seen.into_iter().chain([extended.1]).flatten() {
            assert_eq!(Some(seen), end, "it stays as it was seen");
        }
        assert_eq!(cancelled.unwrap_or(false), end == Some(Ended::Cancelled));
        if extended.0 {
            assert_ne!(end, Some(Ended::Passed), "it has an hour");
        } else {
            assert!(end.is_some(), "only what has ended is not extended");
        }
    }
}
