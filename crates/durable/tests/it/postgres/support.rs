//! Helpers of these tests.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use timingwheel::TimingWheel;
use timingwheel_durable::store::{Kinds, Overdue, Owner, Store};
use timingwheel_durable::tokio_postgres::{Client, NoTls};
use timingwheel_durable::{Answer, Builder, Durable, Kind, Place, PostgresOptions, PostgresStore, Run};

use crate::every_store::kinds;

/// Longer than anything takes, on a machine that is slow and busy.
pub(crate) const GUARD: Duration = Duration::from_secs(120);

#[derive(Serialize, Deserialize)]
pub(crate) struct Tick {
    pub(crate) name: String,
}

impl Tick {
    pub(crate) fn new(name: impl Into<String>) -> Self {
        Self { name: name.into() }
    }
}

impl Kind for Tick {
    const KIND: &'static str = "tick";
}

/// The kinds of an owner that has a handler for ticks.
pub(crate) fn ticks() -> Kinds {
    kinds(&[Tick::KIND])
}

/// Waits until something holds.
pub(crate) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let begin = Instant::now();
    while !holds().await {
        assert!(begin.elapsed() < GUARD, "not within {GUARD:?}: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

pub(crate) fn soon(millis: i64) -> Timestamp {
    Timestamp::now() + SignedDuration::from_millis(millis)
}

/// A connection to the database, for statements by hand.
pub(crate) async fn client(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("a connection");
    tokio::spawn(connection);
    client
}

/// All timers of an owner that are overdue.
pub(crate) async fn overdue(store: &PostgresStore, owner: Owner, kinds: Kinds) -> Vec<Overdue> {
    let (mut all, mut after) = (Vec::new(), Some(Place::FIRST));
    while let Some(place) = after {
        let told = store.overdue(owner, place, soon(0), Kinds::clone(&kinds)).await.expect("an answer");
        assert!(
            told.1.is_none_or(|end| end > place) && told.0.iter().all(|timer| timer.timer.place() > place)
        );
        all.extend(told.0);
        after = told.1;
    }
    all
}

/// What handlers were called for, with the attempt, by which instance.
#[derive(Clone, Default)]
pub(crate) struct Calls(Arc<Mutex<Vec<(String, u32, u64)>>>);

impl Calls {
    pub(crate) fn all(&self) -> Vec<(String, u32, u64)> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.all().into_iter().map(|(name, ..)| name).collect();
        names.sort_unstable();
        names
    }

    pub(crate) fn note(&self, Tick { name }: Tick, run: &Run) {
        self.0.lock().unwrap().push((name, run.attempt, run.epoch));
    }

    pub(crate) fn handler(
        &self,
    ) -> impl Fn(Tick, Run) -> std::future::Ready<timingwheel_durable::HandlerResult> + use<> {
        let calls = self.clone();
        move |tick, run| {
            calls.note(tick, &run);
            std::future::ready(Ok(Answer::Done))
        }
    }
}

pub(crate) async fn store(url: &str) -> PostgresStore {
    let options = PostgresOptions::new(url).expect("an address");
    PostgresStore::connect_with(options, NoTls).await.expect("a store")
}

/// An instance that is about to start.
pub(crate) fn builder(store: PostgresStore, lease: Duration) -> Builder {
    Durable::builder(&TimingWheel::new(), store).lease(lease)
}

/// An instance that notes its calls.
pub(crate) async fn instance(url: &str, lease: Duration, calls: &Calls) -> Durable {
    builder(store(url).await, lease).on(calls.handler()).start().await.expect("a start")
}
