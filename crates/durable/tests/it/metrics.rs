//! Metrics are the statistics.

use std::collections::BTreeMap;
use std::time::Duration;

use metrics_util::MetricKind;
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use timingwheel_durable::MemoryStore;
use timingwheel_durable::metrics::{DurableMetrics, describe};

use crate::work::{start, work};

#[tokio::test(start_paused = true)]
async fn metrics_are_the_statistics() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let _installed = metrics::set_default_local_recorder(&recorder);
    describe();
    let (wheel, durable) = start(&MemoryStore::new()).await;
    work(&wheel, &durable).await;
    let told = DurableMetrics::new(&durable);
    told.record();
    let (mut values, mut histograms) = (BTreeMap::new(), BTreeMap::new());
    for (key, _, text, value) in snapshotter.snapshot().into_vec() {
        let (kind, key) = key.into_parts();
        let labels: Vec<_> = key.labels().map(|label| (label.key(), label.value())).collect();
        let is_of_kind = key.name().contains("_kind_");
        let expected = [("wheel", "orders"), ("kind", "tick")];
        assert_eq!(labels, expected[..1 + usize::from(is_of_kind)], "{key:?}");
        assert!(text.is_some(), "{key:?} has no description");
        let name = key.name().strip_prefix("timingwheel_durable_").expect("the prefix").to_owned();
        match value {
            DebugValue::Counter(count) => drop(values.insert(name, count as f64)),
            DebugValue::Gauge(value) => drop(values.insert(name, value.into_inner())),
            DebugValue::Histogram(all) => {
                assert_eq!(kind, MetricKind::Histogram);
                histograms.insert(name, all.len());
            }
        }
    }
    let stats = durable.stats();
    let expected = [
        ("up", 1.0),
        ("armed", 1.0),
        ("begun", 0.0),
        ("lease_margin_seconds", 0.0),
        ("clock_offset_seconds", 0.0),
        ("saved_total", 4.0),
        ("save_batches_total", 4.0),
        ("loads_total", stats.loads as f64),
        ("loaded_total", stats.loaded as f64),
        ("attempts_total", 5.0),
        ("done_total", 2.0),
        ("retried_total", 2.0),
        ("snoozed_total", 0.0),
        ("buried_total", 1.0),
        ("skipped_total", 0.0),
        ("removed_total", 0.0),
        ("crashes_total", 0.0),
        ("panicked_total", 0.0),
        ("fenced_total", 0.0),
        ("store_errors_total", 0.0),
        ("clock_set_total", 0.0),
        ("takeovers_total", 0.0),
        ("renewals_total", 0.0),
        ("rejoined_total", 0.0),
        ("empty_scans_total", 0.0),
        ("replanned_total", 0.0),
        ("damaged_total", 0.0),
        ("saved_unhandled_total", 0.0),
        ("kind_waiting", 0.0),
        ("kind_attempts_total", 5.0),
        ("kind_errors_total", 3.0),
    ];
    assert_eq!(values, expected.map(|(name, value)| (name.to_owned(), value)).into());
    let expected = ["lateness_seconds", "kind_lateness_seconds", "kind_seconds"];
    assert_eq!(histograms, expected.map(|name| (name.to_owned(), 5)).into());
    // What was told is not told again.
    told.record();
    for (_, _, _, value) in snapshotter.snapshot().into_vec() {
        match value {
            DebugValue::Histogram(all) => assert!(all.is_empty()),
            DebugValue::Counter(count) => assert_eq!(count, 0),
            DebugValue::Gauge(_) => {}
        }
    }
    durable.stop(Duration::from_secs(1)).await;
    told.record();
    let stopped = snapshotter.snapshot().into_vec().into_iter().any(|(key, _, _, value)| {
        key.key().name() == "timingwheel_durable_up" && value == DebugValue::Gauge(0.0.into())
    });
    assert!(stopped);
}
