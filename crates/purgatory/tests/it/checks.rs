//! What a check tries, in which order, and what conditions and wakers may do meanwhile. Each of these was, or would
//! have been, a deadlock, an endless loop or a lost completion in Kafka's purgatory.

use std::sync::{Arc, Mutex, OnceLock};
use std::task::Waker;

use timingwheel_purgatory::{Watch, WatchError};

use crate::limit::limit_this_test;
use crate::{DAY, Level, counts, never, poll_by, purgatory, when_woken};

/// So many that they take several batches.
const MANY: usize = 1_000;

#[tokio::test(start_paused = true)]
async fn a_condition_that_checks_its_own_key_tries_the_others_and_not_itself() {
    let (purgatory, level) = (purgatory(), Level::default());
    let handle = purgatory.clone();
    let mut own = level.at_least(2);
    let _elsewhere = purgatory.watch(["elsewhere"], DAY, never);
    let checks = purgatory.watch(["key"], DAY, move || {
        // One that is tried within does not make it forget itself.
        handle.check("elsewhere");
        let completed = handle.check("key");
        own().map(|_| completed)
    });
    let other = purgatory.watch(["key"], DAY, level.at_least(1));
    level.tries();

    assert_eq!((purgatory.check("key"), level.tries()), (0, 3), "the other twice");
    level.set(1);
    assert_eq!((purgatory.check("key"), level.tries()), (0, 2), "the other completed from within");
    assert_eq!(other.await, Ok(1));
    level.set(2);
    assert_eq!(purgatory.check("key"), 1);
    assert_eq!(checks.await, Ok(0));
}

/// Each changes something once it holds, and checks who waits for that. On a stack of 128 KiB, which has room for few
/// conditions within each other.
#[test]
fn conditions_that_check_each_other_complete_in_a_chain_of_any_length() {
    limit_this_test();
    let test = async {
        let purgatory = purgatory();
        let levels: Vec<_> = (0..=MANY).map(|_| Level::default()).collect();
        let link = |n: usize| {
            let (handle, next, mut holds) = (purgatory.clone(), levels[n + 1].clone(), levels[n].at_least(1));
            purgatory.watch([n], DAY, move || {
                holds().inspect(|_| {
                    next.set(1);
                    handle.check(&(n + 1));
                })
            })
        };
        let watches: Vec<_> = (0..MANY).map(link).collect();
        levels[0].set(1);
        assert_eq!(purgatory.check(&0), 1, "the others are completed by checks of conditions");
        for watch in watches {
            assert_eq!(watch.await, Ok(1));
        }
        assert_eq!(counts(&purgatory), (0, 0));
    };
    let run = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
    std::thread::Builder::new().stack_size(128 * 1024).spawn(run).unwrap().join().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_condition_that_does_not_hold_yet_is_tried_again_when_one_within_it_checks_its_key() {
    let purgatory = purgatory();
    let (outer, inner) = (Level::default(), Level::default());
    // The outer looks first, and then checks the inner, by which it would hold.
    let (handle, mut holds) = (purgatory.clone(), outer.at_least(1));
    let waits = purgatory.watch(["outer"], DAY, move || {
        let seen = holds();
        handle.check("inner");
        seen
    });
    let (handle, outer_too, mut opens) = (purgatory.clone(), outer.clone(), inner.at_least(1));
    let opener = purgatory.watch(["inner"], DAY, move || {
        opens().inspect(|_| {
            outer_too.set(5);
            assert_eq!(handle.check("outer"), 0, "it is being tried");
        })
    });
    inner.set(1);
    assert_eq!(purgatory.check("outer"), 1);
    assert_eq!((waits.await, opener.await), (Ok(5), Ok(1)));
}

#[tokio::test(start_paused = true)]
async fn a_condition_may_cancel_its_own_key_and_drop_its_own_future() {
    let (purgatory, level) = (purgatory(), Level::default());
    let (handle, mut holds) = (purgatory.clone(), level.at_least(2));
    let ends = purgatory.watch(["key"], DAY, move || {
        assert_eq!(handle.cancel("key"), 0, "it is being tried");
        holds()
    });
    assert_eq!(ends.await, Err(WatchError::Cancelled), "it did not hold");

    type Slot = OnceLock<Mutex<Option<Watch<usize>>>>;
    let slot = Arc::new(Slot::new());
    let (own, mut holds) = (slot.clone(), level.at_least(2));
    let drops = purgatory.watch(["key"], DAY, move || {
        own.get().and_then(|own| own.lock().unwrap().take());
        holds()
    });
    slot.set(Mutex::new(Some(drops))).unwrap();
    assert_eq!(counts(&purgatory), (1, 1));
    assert_eq!(purgatory.check("key"), 0);
    assert_eq!((counts(&purgatory), level.conditions()), ((0, 0), 0));
}

#[tokio::test(start_paused = true)]
async fn a_waker_may_check_the_key_that_it_is_woken_for() {
    let (purgatory, level) = (purgatory(), Level::default());
    let mut watches: Vec<_> = (0..MANY).map(|_| purgatory.watch(["key"], DAY, level.at_least(1))).collect();
    let handle = purgatory.clone();
    assert!(!poll_by(&mut watches[0], &when_woken(move || _ = handle.check("key"))));
    level.set(1);
    assert_eq!(purgatory.check("key"), 1, "the waker of the first completes all others");
    assert_eq!(counts(&purgatory), (0, 0));
    for watch in watches {
        assert_eq!(watch.await, Ok(1));
    }
}

#[tokio::test(start_paused = true)]
async fn an_operation_that_its_task_completes_during_a_check_in_tasks_is_not_counted() {
    let (purgatory, level) = (purgatory(), Level::default());
    let mut first = purgatory.watch(["key"], DAY, never);
    let second = purgatory.watch(["key"], DAY, level.at_least(1));
    assert_eq!(purgatory.check_in_tasks("key"), 2);
    let second = Mutex::new(second);
    let polls = move || assert!(poll_by(&mut second.lock().unwrap(), Waker::noop()));
    assert!(!poll_by(&mut first, &when_woken(polls)));
    level.set(1);
    assert_eq!((purgatory.check_in_tasks("key"), counts(&purgatory)), (1, (1, 1)));
}

/// What is under a key, as conditions change it while a check goes through it.
#[tokio::test(start_paused = true)]
async fn a_check_of_a_long_list_misses_nothing_and_ends_though_operations_leave_and_come_meanwhile() {
    let (purgatory, level, come) = (purgatory::<&str>(), Level::default(), Level::default());
    let kept = Arc::new(Mutex::new(Vec::new()));
    let tried = Arc::new(Mutex::new(Vec::new()));
    for n in 0..MANY {
        let (again, more, tried, come) = (purgatory.clone(), kept.clone(), tried.clone(), come.clone());
        let mut holds = level.at_least(1);
        let watch = purgatory.watch(["key"], DAY, move || {
            holds()?;
            tried.lock().unwrap().push(n);
            // One that was watched before or after this one leaves, and one comes. A check within a check goes through
            // the same list.
            if n % 10 == 5 {
                let mut kept = more.lock().unwrap();
                let leaves = (n * 7) % MANY;
                let gone = if leaves == n { None } else { std::mem::take(&mut kept[leaves]) };
                drop(kept);
                drop(gone);
                let come = again.watch(["key"], DAY, come.at_least(1));
                more.lock().unwrap().push(Some(come));
            }
            if n == 500 { Some(again.watched_under("key")) } else { None }
        });
        kept.lock().unwrap().push(Some(watch));
    }
    level.set(1);
    assert_eq!(purgatory.check("key"), 1);
    let tried = std::mem::take(&mut *tried.lock().unwrap());
    assert!(tried.is_sorted(), "in the order in which they were watched");
    // All but those that had left before their turn.
    let mut expected: Vec<usize> = Vec::new();
    let mut gone = vec![false; MANY];
    for n in 0..MANY {
        if !gone[n] {
            expected.push(n);
            if n % 10 == 5 {
                gone[(n * 7) % MANY] |= (n * 7) % MANY != n;
            }
        }
    }
    assert_eq!(tried, expected);
    let kept = std::mem::take(&mut *kept.lock().unwrap());
    assert_eq!(
        come.tries(),
        2 * (kept.len() - MANY),
        "what comes is tried as it is added, and not by the check"
    );
    drop(kept);
    assert_eq!(counts(&purgatory), (0, 0));
}
