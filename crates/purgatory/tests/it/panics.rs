//! A user's code that panics, but for conditions, which `model` has: who gets the panic, and that nobody else loses anything.

use std::cell::Cell;
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use timingwheel_purgatory::WatchError;
use tokio_test::{assert_ready_eq, task::spawn};

use crate::{DAY, Level, counts, ms, poll_by, purgatory, when_dropped, when_woken};

#[tokio::test(start_paused = true)]
async fn a_waker_that_panics_harms_nobody() {
    let (purgatory, level) = (purgatory(), Level::default());
    let mut panics = purgatory.watch(["key"], DAY, level.at_least(1));
    let waker = when_woken(|| panic!("a waker"));
    assert!(!poll_by(&mut panics, &waker));
    let other = purgatory.watch(["key"], DAY, level.at_least(1));
    level.set(1);
    assert_eq!((purgatory.check("key"), counts(&purgatory)), (2, (0, 0)));
    assert!(poll_by(&mut panics, &waker));
    assert_eq!(other.await, Ok(1));
    // Nor as it is dropped with its future: the operation has the last one.
    let mut watch = purgatory.watch(["key"], ms(10), level.at_least(2));
    let waker = when_dropped(|| panic!("the drop of a waker"));
    assert!(!poll_by(&mut watch, &waker));
    drop(waker);
    drop(watch);
    assert_eq!((counts(&purgatory), level.conditions()), ((0, 0), 0));
}

/// What panics when it is dropped.
#[derive(Debug, PartialEq)]
struct PanicsWhenDropped;

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("a drop");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_condition_whose_drop_panics_harms_nobody_and_completes() {
    for how in ["check", "cancel", "shutdown", "drop", "expire"] {
        let (purgatory, level) = (purgatory(), Level::default());
        let (captured, mut holds) = (PanicsWhenDropped, level.at_least(1));
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

/// A key of an operation that its own condition drops, so that a check has the last reference.
#[derive(PartialEq, Eq, Hash)]
struct TouchyKey(Option<Touchy>);

#[derive(PartialEq, Eq, Hash)]
struct Touchy;

impl Drop for Touchy {
    fn drop(&mut self) {
        panic!("the drop of a key");
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_whose_drop_panics_at_the_end_of_a_try_does_not_end_the_check() {
    let (purgatory, level) = (purgatory(), Level::default());
    let slot = Arc::new(Mutex::new(None));
    let (own, mut holds) = (slot.clone(), level.at_least(1));
    let keys = [TouchyKey(None), TouchyKey(Some(Touchy))];
    let drops = purgatory.watch(keys, DAY, move || {
        drop(own.lock().unwrap().take());
        holds()
    });
    *slot.lock().unwrap() = Some(drops);
    let other = purgatory.watch([TouchyKey(None)], DAY, level.at_least(1));
    level.set(1);
    assert_eq!((purgatory.check(&TouchyKey(None)), counts(&purgatory)), (2, (0, 0)));
    assert_eq!(other.await, Ok(1));
}

#[tokio::test(start_paused = true)]
async fn a_key_whose_drop_panics_as_the_task_takes_the_output_takes_none_of_it_along() {
    let (purgatory, level) = (purgatory(), Level::default());
    let watch = purgatory.watch([TouchyKey(None), TouchyKey(Some(Touchy))], DAY, level.at_least(1));
    level.set(1);
    assert_eq!(purgatory.check(&TouchyKey(None)), 1);
    assert_eq!(watch.await, Ok(1));
}

thread_local!(static COMPARISONS: Cell<usize> = const { Cell::new(usize::MAX) });

/// Panics when it has been compared so many times.
#[derive(Clone, Debug)]
struct Compared(u8);

impl PartialEq for Compared {
    fn eq(&self, other: &Self) -> bool {
        let left = COMPARISONS.get();
        assert!(left > 0, "compared too often");
        COMPARISONS.set(left - 1);
        self.0 == other.0
    }
}

impl Eq for Compared {}

impl Hash for Compared {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

#[tokio::test(start_paused = true)]
async fn a_comparison_that_panics_in_a_check_leaves_all_waiting() {
    for (many, comparisons) in [(1_000, 100), (1, 0)] {
        let (purgatory, level) = (purgatory(), Level::default());
        let watch = |_| purgatory.watch([Compared(1)], DAY, level.at_least(1));
        let _watches: Vec<_> = (0..many).map(watch).collect();
        COMPARISONS.set(comparisons);
        let check = catch_unwind(AssertUnwindSafe(|| purgatory.check(&Compared(1))));
        COMPARISONS.set(usize::MAX);
        assert!(check.is_err());
        level.set(1);
        assert_eq!((purgatory.check(&Compared(1)), counts(&purgatory)), (many, (0, 0)));
    }
}
