//! Keys that are alike, touchy or late, and long lists of operations under one.

use std::cell::Cell;
use std::future::poll_fn;
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use timingwheel::{TimingWheel, Tolerance};
use timingwheel_purgatory::{Purgatory, WatchError};
use tokio::task::coop::unconstrained;
use tokio::time::Instant;

use crate::{DAY, Level, counts, ms, never, purgatory};

const MANY: usize = 1_000;

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

thread_local!(static COMPARISONS: Cell<usize> = const { Cell::new(usize::MAX) });

/// Panics when it has been compared so many times.
#[derive(Clone, Debug)]
struct Touchy(u8);

impl PartialEq for Touchy {
    fn eq(&self, other: &Self) -> bool {
        let left = COMPARISONS.get();
        assert!(left > 0, "compared too often");
        COMPARISONS.set(left - 1);
        self.0 == other.0
    }
}

impl Eq for Touchy {}

impl Hash for Touchy {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

#[tokio::test(start_paused = true)]
async fn a_comparison_that_panics_in_a_check_leaves_all_waiting() {
    for (many, comparisons) in [(MANY, 100), (1, 0)] {
        let (purgatory, level) = (purgatory(), Level::default());
        let watch = |_| purgatory.watch([Touchy(1)], DAY, level.at_least(1));
        let _watches: Vec<_> = (0..many).map(watch).collect();
        COMPARISONS.set(comparisons);
        let check = catch_unwind(AssertUnwindSafe(|| purgatory.check(&Touchy(1))));
        COMPARISONS.set(usize::MAX);
        assert!(check.is_err());
        level.set(1);
        assert_eq!((purgatory.check(&Touchy(1)), counts(&purgatory)), (many, (0, 0)));
    }
}

/// All have the same hash.
#[derive(PartialEq, Eq)]
struct Alike(u8);

impl Hash for Alike {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u8(0);
    }
}

#[tokio::test(start_paused = true)]
async fn with_a_tolerance_deadlines_are_shared_and_never_early() {
    let wheel = TimingWheel::new();
    let purgatory: Purgatory<u64> = Purgatory::new(&wheel).with_tolerance(Tolerance::share(0.5));
    let start = Instant::now();
    let watches: Vec<_> = (0..100).map(|n| purgatory.clone().watch([n], ms(10_000 + n), never)).collect();
    let mut ends = Vec::new();
    for (n, watch) in (0..).zip(watches) {
        let deadline = watch.deadline().unwrap();
        assert_eq!(watch.await, Err(WatchError::Expired));
        assert_eq!(Instant::now(), deadline);
        assert!((ms(10_000 + n)..ms(15_100)).contains(&start.elapsed()));
        ends.push(start.elapsed());
    }
    ends.dedup();
    assert!(ends.len() <= 2, "{ends:?}");
    // Those that are exact are told apart, and what has no delay has no tolerance.
    let exact = Purgatory::new(&wheel).watch([0], ms(7), never);
    let begin = Instant::now();
    assert_eq!((exact.await, begin.elapsed()), (Err(WatchError::Expired), ms(7)));
    assert_eq!(purgatory.watch([0], Duration::ZERO, never).await, Err(WatchError::Expired));
    assert_eq!(begin.elapsed(), ms(7));
}

#[tokio::test(start_paused = true)]
async fn an_operation_whose_keys_have_the_same_hash_counts_once_under_each() {
    let (purgatory, level) = (purgatory(), Level::default());
    let watch = purgatory.watch([1, 2, 1, 3, 2].map(Alike), DAY, level.at_least(1));
    assert_eq!(counts(&purgatory), (3, 1));
    level.tries();
    for key in [1, 2, 3] {
        assert_eq!(purgatory.watched_under(&Alike(key)), 1);
        assert_eq!((purgatory.check(&Alike(key)), level.tries()), (0, 1));
        assert_eq!(purgatory.check_in_tasks(&Alike(key)), 1);
    }
    assert_eq!(purgatory.watched_under(&Alike(4)), 0);
    level.set(1);
    assert_eq!(
        (purgatory.check(&Alike(4)), level.tries(), counts(&purgatory)),
        (0, 0, (3, 1)),
        "another key"
    );
    assert_eq!((purgatory.check(&Alike(3)), counts(&purgatory)), (1, (0, 0)));
    drop(watch);
}

/// A turn fires some thousands at a time. Whoever polls all of them finds those that are left due as well.
#[tokio::test(start_paused = true)]
async fn operations_that_expire_count_as_fired_also_if_their_task_is_there_before_the_turn() {
    const MANY: u64 = 10_000;
    let wheel = TimingWheel::new();
    let purgatory: Purgatory<u64> = Purgatory::new(&wheel);
    let mut watches: Vec<_> = (0..MANY).map(|n| purgatory.watch([n], ms(10), never)).collect();
    unconstrained(poll_fn(|cx| {
        watches.retain_mut(|watch| Pin::new(watch).poll(cx).is_pending());
        if watches.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    }))
    .await;
    let stats = wheel.stats();
    assert_eq!((stats.fired, stats.cancelled), (MANY, 0));
}
