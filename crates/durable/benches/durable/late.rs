//! How late timers are, at a steady rate.

use std::time::Duration;

use jiff::SignedDuration;
use timingwheel::Histogram;
use timingwheel::TimingWheel;
use timingwheel_durable::RedbStore;
use timingwheel_durable::store::{NewTimer, Store};
use timingwheel_durable::{Kind, TimerId};
use tokio::time::Instant;

use crate::rig::{Called, Files, Work, ahead, median, millis, payload, runtime};
use crate::{Row, Scale};

/// In seconds, of 99 %.
fn p99(histogram: &Histogram) -> f64 {
    histogram.quantile(0.99).expect("not empty").as_secs_f64()
}

/// Tasks that sleep on a wheel.
async fn plain(count: usize, gap: Duration) -> f64 {
    let (wheel, first) = (TimingWheel::new(), Instant::now() + Duration::from_millis(1_500));
    let tasks: Vec<_> = (0..count)
        .map(|number| {
            let (wheel, due) = (wheel.clone(), first + gap * u32::try_from(number).expect("few"));
            tokio::spawn(async move {
                wheel.sleep_until(due).await;
                due.elapsed()
            })
        })
        .collect();
    let mut lateness = Histogram::default();
    for task in tasks {
        lateness.record(task.await.expect("no panic"));
    }
    p99(&lateness)
}

/// Timers that were stored before the start.
async fn stored(store: RedbStore, count: usize, gap: Duration) -> f64 {
    let first = ahead(2);
    let gap = SignedDuration::try_from(gap).expect("short");
    let timers = (0..count).map(|number| {
        NewTimer::new(
            TimerId::new(first + gap * i32::try_from(number).expect("few"), number as u64),
            Work::KIND,
            payload(),
        )
    });
    let timers: Vec<NewTimer> = timers.collect();
    for batch in timers.chunks(10_000) {
        store.save(batch.to_vec()).await.expect("saved");
    }
    let (wheel, called) = (TimingWheel::new(), Called::new(count));
    let durable = called.builder(&wheel, store).start().await.expect("a start");
    called.wait().await;
    p99(&durable.stats().lateness)
}

pub(crate) fn late(scale: Scale) -> Row {
    let (seconds, each) = scale.late;
    let (count, gap) = (seconds * each, Duration::from_secs(1) / u32::try_from(each).expect("few"));
    let mut files = Files::new();
    let (mut ours, mut plains) = (Vec::new(), Vec::new());
    for _ in 0..scale.pairs {
        plains.push(runtime().block_on(plain(count, gap)));
        let path = files.next();
        ours.push(
            runtime().block_on(async { stored(RedbStore::create(path).expect("a store"), count, gap).await }),
        );
    }
    let (ours, plain) = (median(ours), median(plains));
    Row {
        name: "lateness p99 at 10,000 a second",
        ours: millis(ours),
        other: millis(plain),
        ratio: Some(ours / plain),
        target: "< 2",
    }
}
