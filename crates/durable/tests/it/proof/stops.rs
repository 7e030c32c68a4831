//! Calls of the store that are under way when a stop comes.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use timingwheel::TimingWheel;
use timingwheel_calendar::Periodic;
use timingwheel_durable::{Answer, Durable, Kind, MemoryStore};

use super::hooked::{Hook, Hooked, Injected, Step};

const HOUR: Duration = Duration::from_secs(3_600);
const LIMIT: Duration = Duration::from_secs(5);

#[derive(Serialize, Deserialize)]
struct Tick;

impl Kind for Tick {
    const KIND: &'static str = "tick";
}

async fn started<H: Hook>(hook: H) -> Durable {
    started_on(MemoryStore::new(), hook).await
}

async fn started_on<H: Hook>(store: MemoryStore, hook: H) -> Durable {
    let store = Hooked { store, hook };
    let builder = Durable::builder(&TimingWheel::new(), store).on(|_: Tick, _| async { Ok(Answer::Done) });
    builder.start().await.unwrap()
}

/// Polls it once.
fn begin(future: Pin<&mut impl Future>) {
    assert!(future.poll(&mut Context::from_waker(Waker::noop())).is_pending());
}

/// Saves and the leave fail, and loads hang.
#[derive(Clone, Default)]
struct FailsAndHangs {
    is_on: Arc<AtomicBool>,
    hangs: Arc<AtomicBool>,
}

impl Hook for FailsAndHangs {
    async fn at(&self, call: &'static str, _: Step) -> Result<(), Injected> {
        match call {
            _ if !self.is_on.load(Ordering::Relaxed) => Ok(()),
            "save" | "leave" => Err(Injected),
            "load" => {
                self.hangs.store(true, Ordering::Relaxed);
                std::future::pending().await
            }
            _ => Ok(()),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_leave_that_fails_is_counted_also_where_a_load_hangs() {
    let hook = FailsAndHangs::default();
    let durable = started(hook.clone()).await;
    hook.is_on.store(true, Ordering::Relaxed);
    // The runner loads anew then.
    assert!(durable.after(HOUR, &Tick).save().await.is_err());
    tokio::time::sleep(LIMIT).await;
    assert!(hook.hangs.load(Ordering::Relaxed));
    assert_eq!(durable.stats().store_errors, 1);
    durable.stop(LIMIT).await;
    assert_eq!(durable.stats().store_errors, 2);
}

/// These calls take half a second. Counts those that have ended.
#[derive(Clone)]
struct Slow(&'static [&'static str], Arc<AtomicUsize>);

impl Slow {
    fn new(calls: &'static [&'static str]) -> Self {
        Self(calls, Arc::default())
    }

    fn ended(&self) -> usize {
        self.1.load(Ordering::Relaxed)
    }
}

impl Hook for Slow {
    async fn at(&self, call: &'static str, step: Step) -> Result<(), Injected> {
        if step == Step::After && self.0.contains(&call) {
            tokio::time::sleep(Duration::from_millis(500)).await;
            self.1.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_waits_for_saves_cancels_and_deletions_whose_callers_have_gone() {
    let hook = Slow::new(&["save", "cancel", "unbury"]);
    let durable = started(hook.clone()).await;
    let id = durable.after(HOUR, &Tick).save().await.unwrap();
    begin(pin!(durable.after(HOUR, &Tick).save()));
    begin(pin!(durable.cancel(id)));
    begin(pin!(durable.delete_buried(id)));
    assert_eq!(hook.ended(), 1);
    durable.stop(LIMIT).await;
    assert_eq!(hook.ended(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_stop_waits_for_one_page_of_an_inspection() {
    let (store, hook) = (MemoryStore::new(), Slow::new(&["list"]));
    let filling = started_on(store.clone(), Slow::new(&[])).await;
    for number in 0..1_000 {
        let plan = Periodic::seconds(86_400, filling.now());
        filling.every(number.to_string(), plan, &Tick).save().await.unwrap();
    }
    filling.stop(LIMIT).await;
    let durable = started_on(store, hook.clone()).await;
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert_eq!(hook.ended(), 1, "the inspection at the start");
    durable.stop(LIMIT).await;
    assert_eq!(hook.ended(), 2);
}
