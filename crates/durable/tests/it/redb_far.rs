//! Very many timers that are far: nothing of them is in memory, and nothing is loaded.
//!
//! `DURABLE_FAR=10000000` stores as many, and looks at the memory of the process too.

use std::env;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use timingwheel::TimingWheel;
use timingwheel_durable::store::{NewTimer, Store};
use timingwheel_durable::{Answer, Durable, Kind, RedbOptions, RedbStore, Run, TimerId};

#[derive(Serialize, Deserialize)]
struct Far(u64);

impl Kind for Far {
    const KIND: &'static str = "far";
}

async fn fill(store: &RedbStore, numbers: std::ops::Range<u64>) {
    let month = Timestamp::now() + SignedDuration::from_hours(30 * 24);
    for from in numbers.clone().step_by(10_000) {
        let timers = (from..numbers.end.min(from + 10_000)).map(|number| {
            NewTimer::new(
                TimerId::new(
                    month + SignedDuration::from_millis(i64::try_from(number % 1_000_000).expect("few")),
                    number,
                ),
                Far::KIND,
                number.to_string(),
            )
        });
        store.save(timers.collect()).await.expect("saved");
    }
}

/// What the process has of the machine's memory, in bytes, where the system tells.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("RssAnon:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? * 1024)
}

#[tokio::test]
async fn however_many_are_far_none_is_loaded_and_what_is_near_is() {
    let count = env::var("DURABLE_FAR").map_or(10_000, |count| count.parse().expect("DURABLE_FAR"));
    let folder = tempfile::tempdir().expect("a folder");
    // So small that it is full long before the half.
    let options = RedbOptions::new().cache(1 << 20);
    let store = RedbStore::create_with(folder.path().join("timers.redb"), options).expect("a store");
    fill(&store, 0..count / 2).await;
    let before = resident();
    fill(&store, count / 2..count).await;
    let after = resident();
    let called = Arc::new(AtomicU64::new(0));
    let calls = called.clone();
    let durable = Durable::builder(&TimingWheel::new(), store)
        .on(move |Far(_), _: Run| {
            calls.fetch_add(1, Ordering::Relaxed);
            async { Ok(Answer::Done) }
        })
        .start()
        .await
        .expect("a start");
    for number in 0..20 {
        durable.after(Duration::from_millis(number * 10), &Far(number)).save().await.expect("saved");
    }
    let begin = Instant::now();
    while called.load(Ordering::Relaxed) < 20 {
        assert!(begin.elapsed() < Duration::from_secs(120), "{:?}", durable.stats());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let stats = durable.stats();
    assert!(stats.loaded <= 20 && stats.armed <= 20, "{stats:?}");
    assert_eq!(durable.count().await.expect("a count").stored, count);
    if let (Some(before), Some(after)) = (before, after)
        && count >= 1_000_000
    {
        // The engine's own: 0 for each, and less than a page for a hundred of them.
        let grown = after.saturating_sub(before);
        assert!(grown < count / 2 * 8, "{grown} bytes for {} timers", count / 2);
    }
}
