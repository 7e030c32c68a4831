//! Files, timers and medians.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;
use timingwheel::TimingWheel;
use timingwheel_durable::store::{NewTimer, Store};
use timingwheel_durable::{Answer, Builder, Durable, Kind, RedbStore, Run, TimerId};
use tokio::runtime::Runtime;
use tokio::sync::Notify;

/// A payload of a hundred bytes, as JSON.
#[derive(Serialize, Deserialize)]
pub(crate) struct Work {
    text: String,
}

impl Kind for Work {
    const KIND: &'static str = "work";
}

pub(crate) fn work() -> Work {
    Work { text: "x".repeat(89) }
}

pub(crate) fn payload() -> Vec<u8> {
    serde_json::to_vec(&work()).expect("JSON")
}

pub(crate) fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}

pub(crate) struct Files {
    folder: TempDir,
    count: usize,
}

impl Files {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder"), count: 0 }
    }

    /// One that is not there yet.
    pub(crate) fn next(&mut self) -> PathBuf {
        self.count += 1;
        self.folder.path().join(format!("{}.redb", self.count))
    }
}

pub(crate) fn ago(seconds: i64) -> Timestamp {
    Timestamp::now() - SignedDuration::from_secs(seconds)
}

pub(crate) fn ahead(seconds: i64) -> Timestamp {
    ago(-seconds)
}

/// Stores so many, a millisecond after each other.
pub(crate) async fn fill(store: &RedbStore, count: usize, first: Timestamp) {
    let payload = payload();
    for from in (0..count).step_by(10_000) {
        let timers = (from..count.min(from + 10_000)).map(|number| {
            NewTimer::new(
                TimerId::new(
                    first + SignedDuration::from_millis(i64::try_from(number % 86_400_000).expect("a day")),
                    number as u64,
                ),
                Work::KIND,
                payload.clone(),
            )
        });
        store.save(timers.collect()).await.expect("saved");
    }
}

/// Counts handlers' calls, and tells when there were so many.
#[derive(Clone)]
pub(crate) struct Called(Arc<(AtomicUsize, usize, Notify)>);

impl Called {
    pub(crate) fn new(wanted: usize) -> Self {
        Self(Arc::new((AtomicUsize::new(0), wanted, Notify::new())))
    }

    pub(crate) async fn wait(&self) {
        self.0.2.notified().await;
    }

    /// With a handler that does nothing else.
    pub(crate) fn builder(&self, wheel: &TimingWheel, store: RedbStore) -> Builder {
        let called = self.clone();
        Durable::builder(wheel, store).on(move |_: Work, _: Run| {
            let (count, wanted, notify) = &*called.0;
            if count.fetch_add(1, Ordering::Relaxed) + 1 == *wanted {
                notify.notify_one();
            }
            async { Ok(Answer::Done) }
        })
    }
}

pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

pub(crate) fn rate(count: usize, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64()
}

pub(crate) fn per_second(rate: f64) -> String {
    format!("{:.1} k/s", rate / 1_000.0)
}

pub(crate) fn millis(seconds: f64) -> String {
    format!("{:.2} ms", seconds * 1_000.0)
}
