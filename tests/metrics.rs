//! The metrics of the feature `metrics`, by a recorder that keeps them.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::Duration;

use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use timingwheel::{Sleep, TimingWheel, metrics};
use tokio::time::advance;

const HOUR: Duration = Duration::from_secs(60 * 60);

fn armed(wheel: &TimingWheel, delay: Duration) -> Sleep {
    let mut sleep = wheel.sleep(delay);
    assert!(Pin::new(&mut sleep).poll(&mut Context::from_waker(Waker::noop())).is_pending());
    sleep
}

/// Everything that is recorded, as a scrape would have it.
struct Recorded(BTreeMap<String, (f64, String)>);

impl Recorded {
    fn of(record: impl FnOnce()) -> Self {
        let recorder = DebuggingRecorder::new();
        ::metrics::with_local_recorder(&recorder, record);
        let metrics = recorder.snapshotter().snapshot().into_vec().into_iter();
        let metrics = metrics.map(|(key, unit, description, value)| {
            let labels: Vec<_> =
                key.key().labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
            let (kind, value) = match value {
                DebugValue::Counter(count) => ("counter", count as f64),
                DebugValue::Gauge(value) => ("gauge", value.into_inner()),
                DebugValue::Histogram(_) => panic!("an exporter would keep each value"),
            };
            let words = format!("{kind} {unit:?} {}", description.is_some());
            (format!("{}{{{}}}", key.key().name(), labels.join(",")), (value, words))
        });
        Self(metrics.collect())
    }

    fn value(&self, name: &str) -> f64 {
        self.0.get(name).unwrap_or_else(|| panic!("no {name} among {:?}", self.0.keys())).0
    }
}

#[tokio::test(start_paused = true)]
async fn each_metric_has_its_name_kind_unit_and_a_description() {
    let wheel = TimingWheel::builder().name("rpc").build().expect("a wheel");
    let recorded = Recorded::of(|| {
        metrics::describe();
        metrics::record(&wheel);
    });
    let without_buckets =
        recorded.0.iter().filter(|(name, _)| !name.contains("le=") || name.contains("+Inf"));
    let told: Vec<_> = without_buckets.map(|(name, (_, words))| format!("{name} {words}")).collect();
    assert_eq!(
        told,
        [
            "timingwheel_armed_total{wheel=rpc} counter Some(Count) true",
            "timingwheel_cancelled_total{wheel=rpc} counter Some(Count) true",
            "timingwheel_cascaded_total{wheel=rpc} counter Some(Count) true",
            "timingwheel_fired_total{wheel=rpc} counter Some(Count) true",
            "timingwheel_jobs_panicked_total{wheel=rpc} counter Some(Count) true",
            "timingwheel_lateness_seconds_bucket{wheel=rpc,le=+Inf} counter Some(Count) true",
            "timingwheel_lock_hold_seconds_bucket{wheel=rpc,le=+Inf} counter Some(Count) true",
            "timingwheel_overdue_seconds{wheel=rpc} gauge Some(Seconds) true",
            "timingwheel_pending_by_level{wheel=rpc,level=0} gauge Some(Count) true",
            "timingwheel_pending_tolerant{wheel=rpc} gauge Some(Count) true",
            "timingwheel_pending{wheel=rpc} gauge Some(Count) true",
            "timingwheel_refused_total{wheel=rpc} counter Some(Count) true",
            "timingwheel_stalls_total{wheel=rpc} counter Some(Count) true",
            "timingwheel_turns_total{wheel=rpc} counter Some(Count) true",
            "timingwheel_up{wheel=rpc} gauge None true",
            "timingwheel_wakers_panicked_total{wheel=rpc} counter Some(Count) true",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn values_are_those_of_the_statistics() {
    let wheel = TimingWheel::builder().name("rpc").max_pending(6).shards(1).build().expect("a wheel");
    let _fires = [1, 2, 3].map(|millis| armed(&wheel, Duration::from_millis(millis)));
    drop(armed(&wheel, HOUR));
    let job = wheel.run_after(Duration::ZERO, async { panic!("a job that panics, as it should") });
    assert!(job.await.is_err());
    advance(Duration::from_millis(3)).await;
    let _pending = [armed(&wheel, HOUR), armed(&wheel, Duration::from_millis(5))];
    let recorded = Recorded::of(|| metrics::record(&wheel));
    let stats = wheel.stats();
    for (name, value) in [
        ("timingwheel_armed_total", 6),
        ("timingwheel_fired_total", 3),
        ("timingwheel_cancelled_total", 1),
        ("timingwheel_pending", 2),
        ("timingwheel_up", 1),
        ("timingwheel_refused_total", 0),
        ("timingwheel_jobs_panicked_total", 1),
        ("timingwheel_cascaded_total", stats.cascaded),
        ("timingwheel_turns_total", stats.turns),
    ] {
        assert_eq!(recorded.value(&format!("{name}{{wheel=rpc}}")), value as f64, "{name}");
    }
    let by_level =
        |level| recorded.value(&format!("timingwheel_pending_by_level{{wheel=rpc,level={level}}}"));
    assert_eq!((by_level(0), by_level(1) + by_level(2) + by_level(3)), (1.0, 1.0));

    wheel.shutdown();
    let recorded = Recorded::of(|| metrics::record(&wheel));
    assert_eq!(recorded.value("timingwheel_up{wheel=rpc}"), 0.0);
    assert_eq!(recorded.value("timingwheel_pending{wheel=rpc}"), 0.0);
}

#[tokio::test(start_paused = true)]
async fn buckets_count_what_was_up_to_their_bound() {
    let wheel = TimingWheel::builder().name("rpc").build().expect("a wheel");
    // 0, 1 and 99 ms late, and more than the last bound.
    for (delay, passes) in [(5, 5), (5, 6), (1, 100), (1, 100_000)] {
        let timer = armed(&wheel, Duration::from_millis(delay));
        advance(Duration::from_millis(passes)).await;
        drop(timer);
    }
    let recorded = Recorded::of(|| metrics::record(&wheel));
    let up_to =
        |le: &str| recorded.value(&format!("timingwheel_lateness_seconds_bucket{{wheel=rpc,le={le}}}"));
    assert_eq!(
        ["0.000016384", "0.000524288", "0.001048576", "0.134217728", "68.719476736", "+Inf"].map(up_to),
        [1.0, 1.0, 2.0, 3.0, 3.0, 4.0]
    );
    let holds = recorded.value("timingwheel_lock_hold_seconds_bucket{wheel=rpc,le=+Inf}");
    assert_eq!(holds, wheel.stats().lock_holds.count() as f64);
}

#[tokio::test(start_paused = true)]
async fn wheels_without_a_name_are_told_apart() {
    let wheels = [TimingWheel::new(), TimingWheel::new()];
    assert_ne!(wheels[0].name(), wheels[1].name());
    let _timer = armed(&wheels[1], HOUR);
    let recorded = Recorded::of(|| wheels.iter().for_each(metrics::record));
    let pending =
        wheels.map(|wheel| recorded.value(&format!("timingwheel_pending{{wheel={}}}", wheel.name())));
    assert_eq!(pending, [0.0, 1.0]);
}
