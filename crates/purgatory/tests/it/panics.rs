//! A user's code that panics, but for conditions, which `model` has: who gets the panic, and that nobody else loses anything.

use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use timingwheel_purgatory::WatchError;
use tokio_test::{assert_ready_eq, task::spawn};

use crate::{DAY, Key, Level, Use, counts, keys_that, ms, poll_by, purgatory, when_dropped, when_woken};

/// Panics when it is dropped.
struct Again;

impl Drop for Again {
    fn drop(&mut self) {
        panic!("the drop of a payload");
    }
}

#[tokio::test(start_paused = true)]
async fn a_waker_that_panics_harms_nobody() {
    let (purgatory, level) = (purgatory(), Level::default());
    // Also if its payload panics again.
    for waker in [when_woken(|| panic!("a waker")), when_woken(|| panic_any(Again))] {
        level.set(0);
        let mut panics = purgatory.watch(["key"], DAY, level.at_least(1));
        assert!(!poll_by(&mut panics, &waker));
        let other = purgatory.watch(["key"], DAY, level.at_least(1));
        level.set(1);
        assert_eq!((purgatory.check("key"), counts(&purgatory)), (2, (0, 0)));
        assert!(poll_by(&mut panics, &waker));
        assert_eq!(other.await, Ok(1));
    }
    // Nor as it is dropped with its future: the operation has the last one.
    let mut watch = purgatory.watch(["key"], ms(10), level.at_least(2));
    let waker = when_dropped(|| panic!("the drop of a waker"));
    assert!(!poll_by(&mut watch, &waker));
    drop(waker);
    drop(watch);
    assert_eq!((counts(&purgatory), level.conditions()), ((0, 0), 0));
}

#[tokio::test(start_paused = true)]
async fn a_condition_whose_drop_panics_harms_nobody_and_completes() {
    for how in ["check", "cancel", "shutdown", "drop", "expire"] {
        let (purgatory, level) = (purgatory(), Level::default());
        let (captured, mut holds) = (when_dropped(|| panic!("a drop")), level.at_least(1));
        let watch = purgatory.watch(["key"], ms(10), move || {
            let _captured = &captured;
            holds()
        });
        let other = purgatory.watch(["key"], DAY, level.at_least(1));
        match how {
            "check" => {
                level.set(1);
                assert_eq!(purgatory.check("key"), 2);
                assert_ready_eq!(spawn(watch).poll(), Ok(1));
            }
            "cancel" => assert_eq!(purgatory.cancel("key"), 2),
            "shutdown" => assert_eq!(purgatory.shutdown(), 2),
            "drop" => drop(watch),
            _ => assert_eq!(watch.await, Err(WatchError::Expired)),
        }
        level.set(1);
        assert_eq!(other.await.is_ok(), !["cancel", "shutdown"].contains(&how), "{how}");
        assert_eq!(counts(&purgatory), (0, 0));
    }
}

/// Keys of which the second panics as it is dropped.
fn touchy() -> impl Fn(u32) -> Key {
    keys_that(|number, what| assert!((number, what) != (2, Use::CloneOrDrop), "the drop of a key"))
}

/// The condition drops its own operation, so that the check has the last reference.
#[tokio::test(start_paused = true)]
async fn a_key_whose_drop_panics_at_the_end_of_a_try_does_not_end_the_check() {
    let (purgatory, level, key) = (purgatory(), Level::default(), touchy());
    let slot = Arc::new(Mutex::new(None));
    let (own, mut holds) = (slot.clone(), level.at_least(1));
    let drops = purgatory.watch([key(1), key(2)], DAY, move || {
        drop(own.lock().unwrap().take());
        holds()
    });
    *slot.lock().unwrap() = Some(drops);
    let other = purgatory.watch([key(1)], DAY, level.at_least(1));
    level.set(1);
    assert_eq!((purgatory.check(&key(1)), counts(&purgatory)), (2, (0, 0)));
    assert_eq!(other.await, Ok(1));
}

#[tokio::test(start_paused = true)]
async fn a_key_whose_drop_panics_as_the_task_takes_the_output_takes_none_of_it_along() {
    let (purgatory, level, key) = (purgatory(), Level::default(), touchy());
    let watch = purgatory.watch([key(1), key(2)], DAY, level.at_least(1));
    level.set(1);
    assert_eq!(purgatory.check(&key(1)), 1);
    assert_eq!(watch.await, Ok(1));
}

#[tokio::test(start_paused = true)]
async fn a_comparison_that_panics_in_a_check_leaves_all_waiting() {
    for (many, comparisons) in [(1_000, 100), (1, 0)] {
        let (purgatory, level) = (purgatory(), Level::default());
        let left = Arc::new(AtomicUsize::new(usize::MAX));
        let compared = left.clone();
        let key = keys_that(move |_, what| {
            let before = compared.fetch_sub(usize::from(what == Use::Eq), Ordering::Relaxed);
            assert!(before > 0 || what != Use::Eq, "compared too often");
        });
        let _watches: Vec<_> = (0..many).map(|_| purgatory.watch([key(1)], DAY, level.at_least(1))).collect();
        left.store(comparisons, Ordering::Relaxed);
        assert!(catch_unwind(AssertUnwindSafe(|| purgatory.check(&key(1)))).is_err());
        left.store(usize::MAX, Ordering::Relaxed);
        level.set(1);
        assert_eq!((purgatory.check(&key(1)), counts(&purgatory)), (many, (0, 0)));
    }
}
