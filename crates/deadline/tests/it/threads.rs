//! A tree that several threads use at once.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Duration;

use timingwheel::TimingWheel;
use timingwheel_deadline::{Deadline, DeadlineExt, Ended, Passed};
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

/// A waker whose drop takes that long.
struct DropsSlowly(Duration);

impl Wake for DropsSlowly {
    fn wake(self: Arc<Self>) {}
}

impl Drop for DropsSlowly {
    fn drop(&mut self) {
        thread::sleep(self.0);
    }
}

/// The timer fires at a time from before a move, while a future drops the waker that it had before, and takes the new one.
#[test]
fn a_future_that_moves_to_another_task_as_the_timer_fires_leaves_the_wheel_at_rest() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let wheel = runtime.block_on(async { TimingWheel::new() });
    let (root, start) = (wheel.deadline_in(ms(10_000)), Instant::now());
    let first = {
        let root = root.clone();
        runtime.spawn(async move { root.passed().await })
    };
    thread::sleep(ms(20));
    let child = root.child_at(start + ms(80));
    let (mut moves, mut stays) = (child.passed(), child.passed());
    let mut poll = |waker: Waker, which: usize| {
        let future = if which == 0 { &mut moves } else { &mut stays };
        _ = Pin::new(future).poll(&mut Context::from_waker(&waker));
    };
    poll(Arc::new(DropsSlowly(ms(120))).into(), 0);
    child.reset(start + ms(400));
    poll(Arc::new(DropsSlowly(Duration::ZERO)).into(), 1);
    poll(Arc::new(DropsSlowly(Duration::ZERO)).into(), 0);
    thread::sleep((start + ms(450)).saturating_duration_since(Instant::now()));
    let (tell, fired) = mpsc::channel();
    runtime.spawn(async move {
        wheel.sleep(ms(5)).await;
        tell.send(()).unwrap();
    });
    fired.recv_timeout(Duration::from_secs(30)).expect("the wheel turns");
    first.abort();
}

/// Polls its future within `wake`, as some executors do.
struct PollsAtOnce {
    passed: Mutex<Passed<'static>>,
    polls: AtomicUsize,
}

impl Wake for PollsAtOnce {
    fn wake(self: Arc<Self>) {
        assert!(self.polls.fetch_add(1, Ordering::Relaxed) < 10, "it is woken again and again");
        let waker = self.clone().into();
        if let Ok(mut passed) = self.passed.try_lock() {
            _ = Pin::new(&mut *passed).poll(&mut Context::from_waker(&waker));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_that_polls_as_it_is_woken_asks_an_ended_wheel_a_few_times_and_no_more() {
    let wheel = TimingWheel::new();
    // The future keeps its own time to the end, and with it all of this.
    let root: &'static Deadline = Box::leak(Box::new(wheel.deadline_in(ms(100_000))));
    let task = Arc::new(PollsAtOnce { passed: Mutex::new(root.passed()), polls: AtomicUsize::new(0) });
    task.clone().wake();
    wheel.shutdown();
    sleep(ms(10)).await;
    assert!((2..10).contains(&task.polls.load(Ordering::Relaxed)), "it was woken");
    root.cancel();
    assert!(root.has_ended());
}
