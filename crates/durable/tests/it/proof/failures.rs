//! Stores that fail for a while.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use timingwheel::TimingWheel;
use timingwheel_durable::{Answer, Durable, Error, Kind, MemoryStore, Run};

use super::hooked::{Hook, Hooked, Injected, Step};

#[derive(Serialize, Deserialize)]
struct Tick(u64);

impl Kind for Tick {
    const KIND: &'static str = "tick";
}

/// Fails a share of all calls, before or after the store has done them.
#[derive(Clone, Default)]
struct Fails {
    /// In 256.
    share: Arc<AtomicUsize>,
    count: Arc<AtomicU64>,
}

impl Hook for Fails {
    async fn at(&self, _: &'static str, _: Step) -> Result<(), Injected> {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let random = fastrand::Rng::with_seed(count).usize(..256);
        if random < self.share.load(Ordering::Relaxed) { Err(Injected) } else { Ok(()) }
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_again_and_again_loses_nothing_and_says_so() {
    let (wheel, fails) = (TimingWheel::new(), Fails::default());
    let calls: Arc<[AtomicUsize; 200]> = Arc::new(std::array::from_fn(|_| AtomicUsize::new(0)));
    let store = Hooked { store: MemoryStore::new(), hook: fails.clone() };
    let counts = calls.clone();
    let durable = Durable::builder(&wheel, store)
        .on(move |Tick(number), _: Run| {
            let calls = counts[usize::try_from(number).unwrap()].fetch_add(1, Ordering::Relaxed);
            async move {
                if number % 3 == 0 && calls == 0 { Err("the first time".into()) } else { Ok(Answer::Done) }
            }
        })
        .start()
        .await
        .unwrap();
    fails.share.store(80, Ordering::Relaxed);
    let mut saved = Vec::new();
    for number in 0..200 {
        match durable.after(Duration::from_millis(number * 100), &Tick(number)).save().await {
            Ok(_) => saved.push(usize::try_from(number).unwrap()),
            Err(Error::Store { is_transient: true, .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    wheel.sleep(Duration::from_secs(300)).await;
    fails.share.store(0, Ordering::Relaxed);
    wheel.sleep(Duration::from_secs(30)).await;
    assert!((20..180).contains(&saved.len()), "{} saves succeeded", saved.len());
    for number in saved {
        let count = calls[number].load(Ordering::Relaxed);
        // A begin or a settle whose answer was lost is made again; the handler is not called again for that.
        assert_eq!(count, if number % 3 == 0 { 2 } else { 1 }, "{number}");
    }
    assert_eq!(durable.stats().fenced, 0, "the store has one owner");
    assert!(durable.stats().store_errors > 20, "{:?}", durable.stats().store_errors);
    assert_eq!(durable.count().await.unwrap(), Default::default());
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_gone_for_a_minute_delays_and_stops_nothing() {
    let (wheel, fails) = (TimingWheel::new(), Fails::default());
    let store = Hooked { store: MemoryStore::new(), hook: fails.clone() };
    let durable =
        Durable::builder(&wheel, store).on(|_: Tick, _| async { Ok(Answer::Done) }).start().await.unwrap();
    for seconds in [1, 70, 200] {
        durable.after(Duration::from_secs(seconds), &Tick(0)).save().await.unwrap();
    }
    fails.share.store(256, Ordering::Relaxed);
    wheel.sleep(Duration::from_secs(60)).await;
    let stats = durable.stats();
    assert_eq!(stats.attempts, 0);
    assert!((12..30).contains(&stats.store_errors), "back-off up to five seconds: {}", stats.store_errors);
    fails.share.store(0, Ordering::Relaxed);
    wheel.sleep(Duration::from_secs(6)).await;
    assert_eq!(durable.stats().done, 1);
    wheel.sleep(Duration::from_secs(200)).await;
    assert_eq!(durable.stats().done, 3);
}

#[tokio::test(start_paused = true)]
async fn a_stop_comes_to_an_end_also_where_the_store_fails() {
    let (wheel, fails) = (TimingWheel::new(), Fails::default());
    let memory = MemoryStore::new();
    let store = Hooked { store: memory.clone(), hook: fails.clone() };
    let handler = {
        let wheel = wheel.clone();
        move |Tick(takes), _: Run| {
            let wheel = wheel.clone();
            async move {
                wheel.sleep(Duration::from_secs(takes)).await;
                Ok(Answer::Done)
            }
        }
    };
    let durable = Durable::builder(&wheel, store).on(handler).start().await.unwrap();
    for takes in [3, 100] {
        durable.after(Duration::from_secs(1), &Tick(takes)).save().await.unwrap();
    }
    wheel.sleep(Duration::from_secs(2)).await;
    fails.share.store(256, Ordering::Relaxed);
    let since = tokio::time::Instant::now();
    let stopped = durable.stop(Duration::from_secs(5)).await;
    assert!(since.elapsed() < Duration::from_secs(8), "{:?}", since.elapsed());
    // One ended within the limit, and could not be told; the other was dropped.
    assert_eq!((stopped.finished, stopped.unsettled, stopped.aborted), (1, 1, 1), "{stopped:?}");
    // Whatever could not be told is made again.
    let again =
        Durable::builder(&wheel, memory).on(|_: Tick, _| async { Ok(Answer::Done) }).start().await.unwrap();
    wheel.sleep(Duration::from_secs(10)).await;
    assert_eq!(again.count().await.unwrap(), Default::default());
}
