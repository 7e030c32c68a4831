//! The metrics of the feature `metrics`, by a recorder that keeps them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Context, Wake};
use std::thread;
use std::time::Duration;

use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use timingwheel::TimingWheel;
use timingwheel::metrics::{self, BUCKETS, WheelMetrics};
use tokio::time::advance;

use crate::{HOUR, armed, ms};

/// Everything that is recorded, as a scrape would have it: values and words. A histogram's value is how many it was told.
struct Recorded(BTreeMap<String, (f64, String)>, BTreeMap<String, Vec<f64>>);

impl Recorded {
    fn of(record: impl FnOnce()) -> Self {
        let recorder = DebuggingRecorder::new();
        ::metrics::with_local_recorder(&recorder, record);
        let metrics = recorder.snapshotter().snapshot().into_vec().into_iter();
        let mut histograms = BTreeMap::new();
        let metrics = metrics.map(|(key, unit, description, value)| {
            let labels: Vec<_> =
                key.key().labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
            let name = format!("{}{{{}}}", key.key().name(), labels.join(","));
            let (kind, value) = match value {
                DebugValue::Counter(count) => ("counter", count as f64),
                DebugValue::Gauge(value) => ("gauge", value.into_inner()),
                DebugValue::Histogram(values) => {
                    let values: Vec<f64> = values.iter().map(|value| **value).collect();
                    let count = values.len() as f64;
                    histograms.insert(name.clone(), values);
                    ("histogram", count)
                }
            };
            (name, (value, format!("{kind} {unit:?} {}", description.is_some())))
        });
        Self(metrics.collect(), histograms)
    }

    /// The values of a histogram, in seconds.
    fn values(&self, name: &str) -> &[f64] {
        self.1.get(name).map_or(&[], |values| values)
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
        WheelMetrics::new(&wheel).record();
    });
    let told: Vec<_> = recorded.0.iter().map(|(name, (_, words))| format!("{name} {words}")).collect();
    assert_eq!(
        told,
        [
            "timingwheel_armed_total{wheel=rpc} counter Some(Count) true",
            "timingwheel_cancelled_total{wheel=rpc} counter Some(Count) true",
            "timingwheel_cascaded_total{wheel=rpc} counter Some(Count) true",
            "timingwheel_fired_total{wheel=rpc} counter Some(Count) true",
            "timingwheel_lateness_seconds{wheel=rpc} histogram Some(Seconds) true",
            "timingwheel_overdue_seconds{wheel=rpc} gauge Some(Seconds) true",
            "timingwheel_pending_by_level{wheel=rpc,level=0} gauge Some(Count) true",
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
    let metrics = WheelMetrics::new(&wheel);
    let _fires = [1, 2, 3].map(|millis| armed(&wheel, Duration::from_millis(millis)));
    drop(armed(&wheel, HOUR));
    advance(Duration::from_millis(3)).await;
    let _pending = [armed(&wheel, HOUR), armed(&wheel, Duration::from_millis(5))];
    let recorded = Recorded::of(|| metrics.record());
    let stats = wheel.stats();
    for (name, value) in [
        ("timingwheel_armed_total", 6),
        ("timingwheel_fired_total", 3),
        ("timingwheel_cancelled_total", 1),
        ("timingwheel_pending", 2),
        ("timingwheel_up", 1),
        ("timingwheel_refused_total", 0),
        ("timingwheel_cascaded_total", stats.cascaded),
        ("timingwheel_turns_total", stats.turns),
    ] {
        assert_eq!(recorded.value(&format!("{name}{{wheel=rpc}}")), value as f64, "{name}");
    }
    let by_level =
        |level| recorded.value(&format!("timingwheel_pending_by_level{{wheel=rpc,level={level}}}"));
    let above: f64 = (1..stats.pending_by_level.len()).map(by_level).sum();
    assert_eq!((by_level(0), above), (1.0, 1.0));

    wheel.shutdown();
    let recorded = Recorded::of(|| metrics.record());
    assert_eq!(recorded.value("timingwheel_up{wheel=rpc}"), 0.0);
    assert_eq!(recorded.value("timingwheel_pending{wheel=rpc}"), 0.0);
}

struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("a waker that panics, as it should");
    }
}

/// On the real clock: on a paused one no turn is late.
#[tokio::test]
async fn stalls_and_wakers_that_panic_are_told_too() {
    let wheel = TimingWheel::builder().name("rpc").build().expect("a wheel");
    let metrics = WheelMetrics::new(&wheel);
    let mut timer = wheel.sleep(ms(1));
    assert!(timer.poll_unconstrained(&mut Context::from_waker(&Arc::new(Panics).into())).is_pending());
    // The thread is the runtime's only one.
    thread::sleep(ms(50));
    wheel.sleep(ms(1)).await;
    let recorded = Recorded::of(|| metrics.record());
    let told = ["stalls", "wakers_panicked"]
        .map(|name| recorded.value(&format!("timingwheel_{name}_total{{wheel=rpc}}")));
    let stats = wheel.stats();
    assert_eq!(told, [stats.stalls, stats.wakers_panicked].map(|count| count as f64));
    // On a busy machine a later turn may be late too.
    assert!(told[0] > 0.0 && stats.wakers_panicked == 1, "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn histograms_are_told_each_value_once_and_never_less_than_the_truth() {
    let wheel = TimingWheel::builder().name("rpc").build().expect("a wheel");
    let metrics = WheelMetrics::new(&wheel);
    let lateness = |recorded: &Recorded| recorded.values("timingwheel_lateness_seconds{wheel=rpc}").to_vec();
    assert!(lateness(&Recorded::of(|| metrics.record())).is_empty());

    // So many milliseconds late.
    for late in [0, 1, 99] {
        let timer = armed(&wheel, Duration::from_millis(5));
        advance(Duration::from_millis(5 + late)).await;
        drop(timer);
    }
    let recorded = Recorded::of(|| metrics.record());
    let told = lateness(&recorded);
    assert_eq!(told.len(), 3, "{told:?}");
    for (told, truth) in told.into_iter().zip([0.0, 0.001, 0.099]) {
        assert!((truth..=truth * 17.0 / 16.0).contains(&told), "{told} for {truth}");
    }

    let timer = armed(&wheel, Duration::from_millis(5));
    advance(Duration::from_millis(7)).await;
    drop(timer);
    assert_eq!(lateness(&Recorded::of(|| metrics.record())).len(), 1, "only what came since");
    // Somebody else's metrics of the same wheel begin with all there is.
    assert_eq!(lateness(&Recorded::of(|| WheelMetrics::new(&wheel).record())).len(), 4);
}

#[tokio::test(start_paused = true)]
async fn bounds_lie_between_the_buckets_that_values_are_told_by() {
    let wheel = TimingWheel::builder().name("rpc").tick(Duration::from_micros(1)).build().expect("a wheel");
    let metrics = WheelMetrics::new(&wheel);
    // A microsecond less than a bound, and one more.
    let around = |&bound: &f64| {
        let bound = Duration::from_secs_f64(bound);
        [bound - Duration::from_micros(1), bound + Duration::from_micros(1)]
    };
    // tokio's timer, which turns the wheel here, is precise to a millisecond.
    let bounds = BUCKETS.iter().filter(|&&bound| bound > 0.001);
    let late: Vec<_> = bounds.clone().flat_map(around).collect();
    for &late in &late {
        let timer = armed(&wheel, Duration::from_micros(1));
        advance(Duration::from_micros(1) + late).await;
        drop(timer);
    }
    let recorded = Recorded::of(|| metrics.record());
    let told = recorded.values("timingwheel_lateness_seconds{wheel=rpc}");
    assert_eq!(told.len(), late.len());
    for &bound in bounds {
        let exact = late.iter().filter(|late| late.as_secs_f64() <= bound).count();
        assert_eq!(told.iter().filter(|&&told| told <= bound).count(), exact, "up to {bound} s");
    }
}

#[tokio::test(start_paused = true)]
async fn counters_go_on_in_a_wheel_that_takes_the_place_of_one_that_has_ended() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    // All that was counted since the last look.
    let refused = || -> u64 {
        let metrics = snapshotter.snapshot().into_vec().into_iter();
        let counts = metrics.filter(|(key, ..)| key.key().name() == "timingwheel_refused_total");
        counts.map(|(.., value)| if let DebugValue::Counter(count) = value { count } else { 0 }).sum()
    };
    ::metrics::with_local_recorder(&recorder, || {
        let mut told = Vec::new();
        for floods in [&[500, 500][..], &[300, 0, 300]] {
            let wheel = TimingWheel::builder().name("rpc").max_pending(0).build().expect("a wheel");
            let metrics = WheelMetrics::new(&wheel);
            for &refusals in floods {
                (0..refusals).for_each(|_| drop(wheel.try_sleep(HOUR)));
                metrics.record();
                told.push(refused());
            }
            wheel.shutdown();
        }
        assert_eq!(told, [500, 500, 300, 0, 300]);
    });
}

#[tokio::test(start_paused = true)]
async fn wheels_without_a_name_are_told_apart() {
    let wheels = [TimingWheel::new(), TimingWheel::new()];
    assert_ne!(wheels[0].name(), wheels[1].name());
    let _timer = armed(&wheels[1], HOUR);
    let recorded = Recorded::of(|| wheels.iter().for_each(|wheel| WheelMetrics::new(wheel).record()));
    let pending =
        wheels.map(|wheel| recorded.value(&format!("timingwheel_pending{{wheel={}}}", wheel.name())));
    assert_eq!(pending, [0.0, 1.0]);
}
