//! Timers a second.

use std::sync::Arc;
use std::time::Instant;

use timingwheel::TimingWheel;
use timingwheel_durable::{Durable, RedbStore};

use crate::raw::Raw;
use crate::rig::{Called, Files, ago, ahead, fill, median, millis, per_second, rate, runtime, work};
use crate::{Row, Scale};

/// Load, begin, handlers that do nothing, settle; beside load and delete by 10,000.
pub(crate) fn drain(scale: Scale) -> Row {
    let (mut files, count) = (Files::new(), scale.drain);
    let (mut ours, mut raws) = (Vec::new(), Vec::new());
    for _ in 0..scale.pairs {
        let raw = Raw::create(&files.next());
        raw.insert(0..count as u128, 10_000);
        raws.push(rate(count, raw.drain(10_000)));
        assert_eq!(raw.len(), 0);
        let path = files.next();
        ours.push(runtime().block_on(async {
            let store = RedbStore::create(path).expect("a store");
            fill(&store, count, ago(100_000)).await;
            let (wheel, called) = (TimingWheel::new(), Called::new(count));
            let begin = Instant::now();
            let builder = called.builder(&wheel, store).in_memory(40_000).concurrency(20_000);
            let durable = builder.start().await.expect("a start");
            called.wait().await;
            while durable.stats().done < count as u64 {
                wheel.sleep(std::time::Duration::from_millis(1)).await;
            }
            let took = begin.elapsed();
            assert_eq!(durable.count().await.expect("counts").stored, 0);
            rate(count, took)
        }));
    }
    let (ours, raw) = (median(ours), median(raws));
    Row {
        name: "drain: load, begin, handle, settle",
        ours: per_second(ours),
        other: per_second(raw),
        ratio: Some(ours / raw),
        target: "> 0.35",
    }
}

/// A thousand tasks that each save one; beside batches of a thousand.
pub(crate) fn saves(scale: Scale) -> Row {
    let (mut files, count) = (Files::new(), scale.rounds * 1_000);
    let (mut ours, mut raws) = (Vec::new(), Vec::new());
    for _ in 0..scale.pairs {
        raws.push(rate(count, Raw::create(&files.next()).insert(0..count as u128, 1_000)));
        let path = files.next();
        ours.push(runtime().block_on(async {
            let store = RedbStore::create(path).expect("a store");
            let durable = Durable::builder(&TimingWheel::new(), store).start().await.expect("a start");
            let (due, payload, rounds) = (ahead(86_400), Arc::new(work()), scale.rounds);
            let begin = Instant::now();
            let tasks: Vec<_> = (0..1_000)
                .map(|_| {
                    let (durable, payload) = (durable.clone(), payload.clone());
                    tokio::spawn(async move {
                        for _ in 0..rounds {
                            durable.at(due, &*payload).save().await.expect("saved");
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.expect("no panic");
            }
            let took = begin.elapsed();
            assert_eq!(durable.count().await.expect("counts").stored, count as u64);
            rate(count, took)
        }));
    }
    let (ours, raw) = (median(ours), median(raws));
    Row {
        name: "1,000 tasks that each await `save`",
        ours: per_second(ours),
        other: per_second(raw),
        ratio: Some(ours / raw),
        target: "> 0.4",
    }
}

/// One save after the other; beside one commit of one row after the other.
pub(crate) fn alone(scale: Scale) -> Row {
    let mut files = Files::new();
    let (mut ours, mut raws) = (Vec::new(), Vec::new());
    let raw = Raw::create(&files.next());
    let path = files.next();
    runtime().block_on(async {
        let store = RedbStore::create(path).expect("a store");
        let durable = Durable::builder(&TimingWheel::new(), store).start().await.expect("a start");
        let due = ahead(86_400);
        for number in 0..(scale.pairs * scale.alone) as u128 {
            raws.push(raw.insert(number..number + 1, 1).as_secs_f64());
            let begin = Instant::now();
            durable.at(due, &work()).save().await.expect("saved");
            ours.push(begin.elapsed().as_secs_f64());
        }
    });
    let (ours, raw) = (median(ours), median(raws));
    Row {
        name: "one save alone",
        ours: millis(ours),
        other: millis(raw),
        ratio: Some(ours / raw),
        target: "< 1.3",
    }
}
