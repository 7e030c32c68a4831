//! Threads that check, cancel, drop and await the same operations. loom tries the orders of a few, in `src/models.rs`;
//! these are many.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, ThreadId};
use std::time::Duration;

use timingwheel_purgatory::Purgatory;
use timingwheel_purgatory::{Watch, WatchError};
use tokio::task::JoinSet;
use tokio::time::advance;
use tokio_test::{assert_pending, assert_ready, task};

use crate::{DAY, bounded, counts, purgatory, wheel};

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn whoever_wins_each_operation_has_one_outcome_and_what_is_dropped_leaves_nothing_behind() {
    const OPERATIONS: usize = 3_000;
    const KEYS: usize = 7;
    let wheel = wheel();
    let purgatory: Purgatory<usize> = Purgatory::new(&wheel);
    let (level, held, alive) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)), Arc::new(()));
    let mut tasks = JoinSet::new();
    for n in 0..OPERATIONS {
        let (level, held, mut has_held) = (level.clone(), held.clone(), false);
        let watch =
            purgatory.watch([n % KEYS, n % 3 + KEYS], Duration::from_millis(n as u64 % 50), move || {
                assert!(!has_held, "it is not tried again after it held");
                has_held = level.load(Ordering::Relaxed) > n;
                has_held.then(|| held.fetch_add(1, Ordering::Relaxed)).map(|_| n)
            });
        tasks.spawn(async move { watch.await.map(|output| assert_eq!(output, n)) });
    }
    let (completed, cancelled) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        let (purgatory, level, completed, cancelled) = (&purgatory, &level, &completed, &cancelled);
        for thread in 0..3 {
            scope.spawn(move || {
                for round in 0..OPERATIONS {
                    level.fetch_add(thread, Ordering::Relaxed);
                    completed.fetch_add(purgatory.check(&(round % (KEYS + 3))), Ordering::Relaxed);
                    if round % 1_000 == 999 {
                        cancelled.fetch_add(purgatory.cancel(&(round % KEYS)), Ordering::Relaxed);
                    }
                }
            });
        }
        // Others are dropped at once, under keys of their own.
        for key in [KEYS + 3, KEYS + 4] {
            let alive = &alive;
            scope.spawn(move || {
                for round in 0..20_000 {
                    let alive = alive.clone();
                    let holds = move || (Arc::strong_count(&alive) % 7 == round % 7).then_some(());
                    drop(purgatory.watch([key, 2 * KEYS + 7 - key], DAY, holds));
                }
            });
            scope.spawn(move || (0..20_000).for_each(|_| _ = purgatory.check(&key)));
        }
    });
    let (mut told, mut expired, mut told_cancelled) = (0, 0, 0);
    let all = async {
        while let Some(task) = tasks.join_next().await {
            match task.unwrap() {
                Ok(()) => told += 1,
                Err(WatchError::Expired) => expired += 1,
                Err(WatchError::Cancelled) => told_cancelled += 1,
                Err(error) => panic!("{error}"),
            }
        }
    };
    all.await;
    assert_eq!(told + expired + told_cancelled, OPERATIONS);
    assert_eq!(told, held.load(Ordering::Relaxed), "each that held was told so");
    // Some complete at their deadlines, or are cancelled while they are tried.
    assert!(completed.into_inner() <= told && cancelled.into_inner() <= told_cancelled);
    assert_eq!((counts(&purgatory), wheel.pending(), Arc::strong_count(&alive)), ((0, 0), 0, 1));
}

/// An operation that is just being tried by a check on another thread, which goes on when it is told to.
struct BeingTried {
    purgatory: Purgatory<u8>,
    watch: task::Spawn<Watch<(u32, ThreadId)>>,
    holds: Arc<AtomicBool>,
    goes_on: Sender<()>,
    check: thread::JoinHandle<usize>,
}

impl BeingTried {
    /// The condition completes with the number of the try, and the thread. `holds` is for the try that goes on.
    fn new(delay: Duration, holds: bool) -> Self {
        let purgatory = purgatory::<u8>();
        let holds = Arc::new(AtomicBool::new(holds));
        let ((looked, looks), (goes_on, go_on)) = (channel(), channel());
        let (seen, mut tries) = (holds.clone(), 0);
        let mut watch = task::spawn(purgatory.watch([1], delay, move || {
            tries += 1;
            // Twice by `watch`, before and after it is in its list.
            let holds = tries > 2 && seen.load(Ordering::SeqCst);
            if tries == 3 {
                looked.send(()).unwrap();
                go_on.recv().unwrap();
            }
            holds.then(|| (tries, thread::current().id()))
        }));
        assert_pending!(watch.poll());
        let checker = purgatory.clone();
        let check = thread::spawn(move || checker.check(&1));
        looks.recv().unwrap();
        Self { purgatory, watch, holds, goes_on, check }
    }
}

#[tokio::test(start_paused = true)]
async fn a_condition_that_is_being_tried_is_tried_once_more_for_a_check_and_the_deadline_and_not_for_a_cancel()
 {
    for what in ["check", "check in tasks", "deadline", "cancel"] {
        let BeingTried { purgatory, mut watch, holds, goes_on, check } =
            BeingTried::new(Duration::from_millis(10), false);
        holds.store(true, Ordering::SeqCst);
        match what {
            "check" => assert_eq!(purgatory.check(&1), 0, "it is left to the other thread"),
            "check in tasks" => assert_eq!(purgatory.check_in_tasks(&1), 1),
            "cancel" => assert_eq!(purgatory.cancel(&1), 0, "it is left to the other thread"),
            _ => {
                advance(Duration::from_millis(20)).await;
                for _ in 0..10 {
                    tokio::task::yield_now().await;
                }
                assert_pending!(watch.poll());
            }
        }
        let checker = check.thread().id();
        goes_on.send(()).unwrap();
        assert_eq!(check.join().unwrap(), usize::from(what != "cancel"));
        assert!(watch.is_woken());
        let outcome = if what == "cancel" { Err(WatchError::Cancelled) } else { Ok((4, checker)) };
        assert_eq!(assert_ready!(watch.poll()), outcome);
    }
}

#[tokio::test]
async fn an_output_that_comes_after_its_future_is_dropped_is_given_back_by_the_thread_that_tried() {
    let BeingTried { purgatory, watch, goes_on, check, .. } = BeingTried::new(DAY, true);
    let (gave_back, given_back) = channel();
    let give_back = move |output| gave_back.send((output, thread::current().id())).unwrap();
    drop(watch.into_inner().give_back(give_back));
    assert!(given_back.try_recv().is_err(), "it is not known yet whether it holds");
    let checker = check.thread().id();
    goes_on.send(()).unwrap();
    assert_eq!(check.join().unwrap(), 1);
    assert_eq!(given_back.try_recv(), Ok(((3, checker), checker)));
    assert_eq!(counts(&purgatory), (0, 0));
}

/// Another thread checks whenever the condition is tried.
#[tokio::test]
async fn who_tries_a_condition_is_not_kept_by_others_that_check_all_the_time() {
    const MOST: usize = 20;
    let purgatory = purgatory::<u8>();
    let (tries, holds) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let mut watch = task::spawn({
        let (purgatory, tries, holds) = (purgatory.clone(), tries.clone(), holds.clone());
        purgatory.clone().watch([1], DAY, move || {
            if holds.load(Ordering::SeqCst) {
                return Some("holds");
            }
            if tries.fetch_add(1, Ordering::SeqCst) < 1_000 {
                thread::scope(|scope| scope.spawn(|| purgatory.check(&1)).join().unwrap());
            }
            None
        })
    });
    assert!(tries.swap(0, Ordering::SeqCst) <= MOST, "by `watch`");
    assert_pending!(watch.poll());
    for _ in 0..3 {
        assert!(tries.swap(0, Ordering::SeqCst) <= MOST, "by a poll");
        assert!(watch.is_woken(), "its task is to try it");
        assert_pending!(watch.poll());
    }
    tries.store(0, Ordering::SeqCst);
    assert_eq!(purgatory.check(&1), 0);
    assert!(tries.load(Ordering::SeqCst) <= MOST, "by a check");
    assert!(watch.is_woken(), "its task is to try it");
    // What has changed last is seen, though nobody checks for it any more.
    holds.store(true, Ordering::SeqCst);
    assert_eq!(assert_ready!(watch.poll()), Ok("holds"));
    assert_eq!(counts(&purgatory), (0, 0));
}

#[tokio::test]
async fn who_watches_what_ends_at_once_is_not_kept_by_others_that_check_all_the_time() {
    let wheel = bounded();
    let purgatory = Purgatory::<u8>::new(&wheel);
    let _only = purgatory.watch([2], DAY, || None::<()>);
    for (delay, is_expired) in [(Duration::ZERO, true), (DAY, false)] {
        let (checker, tries) = (purgatory.clone(), Arc::new(AtomicUsize::new(0)));
        let tried = tries.clone();
        let watch = purgatory.watch([1], delay, move || {
            if tried.fetch_add(1, Ordering::SeqCst) < 1_000 {
                thread::scope(|scope| scope.spawn(|| checker.check(&1)).join().unwrap());
            }
            None::<()>
        });
        assert_eq!(watch.await == Err(WatchError::Expired), is_expired, "the wheel is full");
        assert!(tries.load(Ordering::SeqCst) <= 20, "{tries:?}");
    }
}

/// The last try that checks cause is met by another check, and then by a cancel.
#[tokio::test]
async fn a_check_before_a_cancel_is_not_lost_however_often_the_condition_was_tried() {
    let purgatory = purgatory::<u8>();
    let mut tries = 0;
    let watch = {
        let purgatory = purgatory.clone();
        purgatory.clone().watch([1], DAY, move || {
            tries += 1;
            // One of `watch` alone, and then one and 16 more because of checks.
            let is_last = tries == 18;
            let other = || _ = (purgatory.check(&1), is_last && purgatory.cancel(&1) == 0);
            if tries <= 18 {
                thread::scope(|scope| scope.spawn(other).join().unwrap());
            }
            (tries > 18).then_some("holds")
        })
    };
    assert_eq!(watch.await, Ok("holds"));
}
