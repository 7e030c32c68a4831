//! A store of which the next call of a name fails, waits or hangs, and timers on it.

use std::future::pending;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use timingwheel::TimingWheel;
use timingwheel_durable::store::Store;
use timingwheel_durable::{Answer, Backoff, Builder, Durable, Kind, MemoryStore, Run, SetClock};

use super::hooked::{Hook, Hooked, Injected, Step};

/// Its handler takes so many seconds.
#[derive(Serialize, Deserialize)]
pub(crate) struct Tick(pub(crate) u64);

impl Kind for Tick {
    const KIND: &'static str = "tick";
}

#[derive(Clone, Copy)]
pub(crate) enum What {
    Fail,
    /// For so many milliseconds.
    Wait(u64),
    Hang,
}

/// What becomes of the next call of that name.
#[derive(Clone, Default)]
pub(crate) struct Script(Arc<Mutex<Vec<Line>>>);

type Line = (&'static str, Step, What);

impl Script {
    pub(crate) fn next(&self, call: &'static str, step: Step, what: What) {
        self.0.lock().unwrap().push((call, step, what));
    }

    pub(crate) fn is_over(&self) -> bool {
        self.0.lock().unwrap().is_empty()
    }
}

impl Hook for Script {
    async fn at(&self, call: &'static str, step: Step) -> Result<(), Injected> {
        let found = {
            let mut script = self.0.lock().unwrap();
            let found = script.iter().position(|(its, at, _)| (*its, *at) == (call, step));
            found.map(|index| script.remove(index).2)
        };
        match found {
            None => Ok(()),
            Some(What::Fail) => Err(Injected),
            Some(What::Wait(millis)) => {
                tokio::time::sleep(Duration::from_millis(millis)).await;
                Ok(())
            }
            Some(What::Hang) => pending().await,
        }
    }
}

pub(crate) struct Rig<S = MemoryStore> {
    pub(crate) wheel: TimingWheel,
    pub(crate) store: S,
    pub(crate) clock: SetClock,
    pub(crate) script: Script,
    calls: Arc<AtomicU64>,
    pub(crate) began: tokio::time::Instant,
}

pub(crate) fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

impl Rig {
    pub(crate) fn new() -> Self {
        Self::on(MemoryStore::new())
    }
}

impl<S: Store + Clone> Rig<S> {
    pub(crate) fn on(store: S) -> Self {
        Self {
            wheel: TimingWheel::new(),
            store,
            clock: SetClock::starting_at(Timestamp::UNIX_EPOCH),
            script: Script::default(),
            calls: Arc::default(),
            began: tokio::time::Instant::now(),
        }
    }

    pub(crate) fn builder(&self) -> Builder {
        let calls = self.calls.clone();
        let store = Hooked { store: self.store.clone(), hook: self.script.clone() };
        Durable::builder(&self.wheel, store)
            .clock(self.clock.clone())
            .on(move |Tick(takes), _: Run| {
                calls.fetch_add(1, Ordering::Relaxed);
                async move {
                    tokio::time::sleep(secs(takes)).await;
                    Ok(Answer::Done)
                }
            })
            .retry::<Tick>(Backoff::fixed(secs(1)).tries(2))
    }

    pub(crate) async fn start(&self) -> Durable {
        self.builder().start().await.unwrap()
    }

    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    pub(crate) fn at(&self, seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }
}
