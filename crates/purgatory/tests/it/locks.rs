//! A user's code never runs under a lock: keys, conditions and outputs may ask for the purgatory wherever they are hashed,
//! compared, called and dropped.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use timingwheel::TimingWheel;
use timingwheel_purgatory::Purgatory;

use crate::{DAY, Key, Use, keys_that, limit, ms};

/// An operation's whole life.
#[tokio::test]
async fn a_hash_a_comparison_a_condition_and_the_drop_of_each_may_ask_for_the_purgatory() {
    limit::limit_this_test();
    // And how often each use has looked at all operations.
    let cell = Arc::new((OnceLock::new(), <[AtomicUsize; 4]>::default()));
    let own = cell.clone();
    let ask = move |what: Use| {
        let Some(purgatory): Option<&Purgatory<Key>> = own.0.get() else { return };
        _ = (purgatory.watched(), purgatory.delayed());
        own.1[what as usize].fetch_add(1, Ordering::Relaxed);
    };
    let asker = ask.clone();
    let asks = keys_that(move |_, what| asker(what));
    let purgatory = cell.0.get_or_init(|| Purgatory::new(&TimingWheel::new()));
    let holds = Arc::new(OnceLock::new());
    let watch = |key: u32, delay: Duration| {
        let (condition, ask, output, holds) = (asks(key), ask.clone(), asks.clone(), holds.clone());
        let keys = [asks(key), asks(key), asks(key + 1)];
        purgatory.watch(keys, delay, move || {
            ask(Use::Call);
            holds.get().map(|()| output(condition.0))
        })
    };
    let mut operations: Vec<_> = (0..20).map(|key| watch(key, DAY)).collect();
    assert_eq!((purgatory.watched(), purgatory.delayed()), (40, 20));
    assert_eq!((purgatory.watched_under(&asks(5)), purgatory.check(&asks(5))), (2, 0));
    assert_eq!(purgatory.cancel(&asks(0)), 1);
    assert!(watch(50, ms(1)).await.is_err(), "expired");
    drop(operations.split_off(15));
    holds.set(()).unwrap();
    assert_eq!(purgatory.check(&asks(5)), 2);
    assert!(operations.swap_remove(5).await.is_ok());
    assert_eq!(purgatory.shutdown(), 12);
    drop(operations);
    assert_eq!((purgatory.watched(), purgatory.delayed()), (0, 0));
    assert!(cell.1.iter().all(|asked| asked.load(Ordering::Relaxed) > 0), "{:?}", cell.1);
}
