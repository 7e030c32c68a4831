//! The cost of timers that are far away.

use std::sync::Arc;
use std::time::Duration;

use timingwheel::TimingWheel;
use timingwheel_durable::store::{Ask, Store};
use timingwheel_durable::{Durable, Kind, MemoryStore, Place, RedbStore};

use crate::rig::{Called, Files, Work, ahead, fill, median, millis, runtime, work};
use crate::{Row, Scale};

/// What the process has of the machine's memory, in bytes, without what files are mapped or cached by the system.
fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap_or_default();
    let kilobytes = line.split_whitespace().nth(1).and_then(|number| number.parse::<f64>().ok());
    kilobytes.unwrap_or(f64::NAN) * 1024.0
}

/// After as many, and again as many: by how much it has grown for each of the second half. The first fills the cache.
pub(crate) fn memory(scale: Scale) -> Row {
    let (mut files, half) = (Files::new(), scale.far / 2);
    let path = files.next();
    let (grown, armed) = runtime().block_on(async {
        let store = RedbStore::create(path).expect("a store");
        let (wheel, called) = (TimingWheel::new(), Called::new(1));
        let durable = called.builder(&wheel, store.clone()).start().await.expect("a start");
        fill(&store, half, ahead(10 * 86_400)).await;
        let before = resident();
        fill(&store, half, ahead(20 * 86_400)).await;
        (resident() - before, durable.stats().armed)
    });
    assert_eq!(armed, 0);
    Row {
        name: "memory for each far timer",
        ours: format!("{:.1} B", grown / half as f64),
        other: String::new(),
        ratio: None,
        target: "0 B",
    }
}

/// The load of the first ten thousand, where a tenth of all is stored, and where all is.
pub(crate) fn load(scale: Scale) -> Row {
    let mut files = Files::new();
    let path = files.next();
    let times = runtime().block_on(async {
        let store = RedbStore::create(path).expect("a store");
        let kinds = Arc::new(std::collections::BTreeSet::from([Work::KIND.to_owned()]));
        let owner = store.join(Duration::from_secs(30), Arc::clone(&kinds)).await.expect("an owner");
        let ask = Ask {
            after: Place::FIRST,
            until: ahead(40 * 86_400),
            limit: (scale.far / 10).min(10_000),
            kinds,
        };
        let mut times = [0.0; 2];
        for (time, (count, days)) in
            times.iter_mut().zip([(scale.far / 10, 10), (scale.far - scale.far / 10, 20)])
        {
            fill(&store, count, ahead(days * 86_400)).await;
            let mut took = Vec::new();
            for _ in 0..scale.pairs.max(3) {
                let begin = std::time::Instant::now();
                let loaded = store.load(owner, ask.clone()).await.expect("a load");
                took.push(begin.elapsed().as_secs_f64());
                assert_eq!(loaded.timers.len(), ask.limit);
            }
            *time = median(took);
        }
        times
    });
    Row {
        name: "load, ten times as many stored",
        ours: millis(times[1]),
        other: millis(times[0]),
        ratio: Some(times[1] / times[0]),
        target: "< 1.2",
    }
}

/// A minute of tokio's paused clock, with one timer a month away.
pub(crate) fn idle(_: Scale) -> Row {
    let builder = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    let turns = builder.expect("a runtime").block_on(async {
        let (wheel, store) = (TimingWheel::new(), MemoryStore::new());
        let durable = Durable::builder(&wheel, store)
            .on(|_: Work, _| async { Ok(timingwheel_durable::Answer::Done) })
            .start()
            .await
            .expect("a start");
        durable.after(Duration::from_secs(30 * 86_400), &work()).save().await.expect("saved");
        tokio::time::sleep(Duration::from_secs(1)).await;
        let before = wheel.stats().turns;
        tokio::time::sleep(Duration::from_secs(60)).await;
        wheel.stats().turns - before
    });
    Row {
        name: "wake-ups in an idle minute",
        ours: turns.to_string(),
        other: String::new(),
        ratio: None,
        target: "0",
    }
}
