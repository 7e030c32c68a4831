//! A user's code that panics: who gets the panic, and that nobody else loses anything.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};

use futures::FutureExt;
use timingwheel_purgatory::{Watch, WatchError};
use tokio_test::{assert_ready_eq, task::spawn};

use crate::{DAY, Level, counts, ms, never, purgatory};

/// A condition that panics at its `nth` try, and never holds.
fn panics_at(nth: usize) -> impl FnMut() -> Option<()> + Send {
    let mut tries = 0;
    move || {
        tries += 1;
        if tries == nth {
            panic!("at try {nth}");
        }
        None
    }
}

async fn panic_of<T>(watch: Watch<T>) -> String
where
    T: Send + std::fmt::Debug,
{
    *AssertUnwindSafe(watch).catch_unwind().await.unwrap_err().downcast().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_condition_that_panics_as_it_is_watched_panics_there_and_leaves_nothing_behind() {
    for nth in [1, 2] {
        let purgatory = purgatory();
        let watch = || purgatory.watch(["a", "b"], DAY, panics_at(nth));
        let panic = catch_unwind(AssertUnwindSafe(watch)).map(drop).unwrap_err();
        assert_eq!(*panic.downcast::<String>().unwrap(), format!("at try {nth}"));
        assert_eq!(counts(&purgatory), (0, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_condition_that_panics_in_a_check_ends_its_own_operation_and_the_check_goes_on() {
    let (purgatory, level) = (purgatory(), Level::default());
    let before = purgatory.watch(["key"], DAY, level.at_least(1));
    let panics = purgatory.watch(["key", "other"], DAY, panics_at(3));
    let after: Vec<_> = (0..100).map(|_| purgatory.watch(["key"], DAY, level.at_least(1))).collect();
    level.set(1);
    assert_eq!((purgatory.check("key"), counts(&purgatory)), (101, (0, 0)));
    assert_eq!(panic_of(panics).await, "at try 3");
    for watch in after.into_iter().chain([before]) {
        assert_eq!(watch.await, Ok(1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_condition_that_panics_at_its_deadline_panics_in_the_task_that_awaits_it() {
    let purgatory = purgatory();
    let panics = purgatory.watch(["key"], ms(10), panics_at(3));
    let expires = purgatory.watch(["key"], ms(10), never);
    assert_eq!(panic_of(panics).await, "at try 3");
    assert_eq!(expires.await, Err(WatchError::Expired));
    assert_eq!(counts(&purgatory), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn the_panic_of_an_operation_whose_future_is_dropped_harms_nobody() {
    let (purgatory, level) = (purgatory(), Level::default());
    let panics = purgatory.watch(["key"], DAY, panics_at(3));
    let other = purgatory.watch(["key"], DAY, level.at_least(1));
    level.set(1);
    assert_eq!(purgatory.check("key"), 1);
    drop(panics);
    assert_eq!(other.await, Ok(1));
}

struct PanicsWhenWoken;

impl Wake for PanicsWhenWoken {
    fn wake(self: Arc<Self>) {
        panic!("a waker");
    }
}

#[tokio::test(start_paused = true)]
async fn a_waker_that_panics_harms_nobody() {
    let (purgatory, level) = (purgatory(), Level::default());
    let mut panics = purgatory.watch(["key"], DAY, level.at_least(1));
    let waker: Waker = Arc::new(PanicsWhenWoken).into();
    let mut poll = || Future::poll(std::pin::Pin::new(&mut panics), &mut Context::from_waker(&waker));
    assert!(poll().is_pending());
    let other = purgatory.watch(["key"], DAY, level.at_least(1));
    level.set(1);
    assert_eq!((purgatory.check("key"), counts(&purgatory)), (2, (0, 0)));
    assert!(poll().is_ready());
    assert_eq!(other.await, Ok(1));
}

struct WakerThatPanicsWhenDropped;

impl Wake for WakerThatPanicsWhenDropped {
    fn wake(self: Arc<Self>) {}
}

impl Drop for WakerThatPanicsWhenDropped {
    fn drop(&mut self) {
        panic!("the drop of a waker");
    }
}

#[tokio::test(start_paused = true)]
async fn an_operation_whose_waker_panics_when_dropped_leaves_its_lists_with_its_future() {
    let (purgatory, level) = (purgatory(), Level::default());
    let mut watch = purgatory.watch(["key"], ms(10), level.at_least(1));
    let waker: Waker = Arc::new(WakerThatPanicsWhenDropped).into();
    assert!(Future::poll(std::pin::Pin::new(&mut watch), &mut Context::from_waker(&waker)).is_pending());
    // The operation has the last one.
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
