//! A wheel's statistics as metrics of the crate `metrics`, for any exporter. Feature `metrics`.
//!
//! [`WheelMetrics::record`] takes a wheel's [`stats`](TimingWheel::stats) and hands them to the recorder. Call it where
//! the metrics are read: just before an exporter renders them for a scrape, or just before it pushes them. Then the
//! values are fresh, and no background task is needed.
//!
//! ```
//! use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};
//! use timingwheel::TimingWheel;
//! use timingwheel::metrics::{self, WheelMetrics};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let exporter = PrometheusBuilder::new()
//!     .set_buckets_for_metric(Matcher::Prefix("timingwheel_".into()), &metrics::BUCKETS)?
//!     .install_recorder()?;
//! metrics::describe();
//!
//! let wheel = TimingWheel::builder().name("rpc").build()?;
//! let metrics = WheelMetrics::new(&wheel);
//! let scrape = || {
//!     metrics.record();
//!     exporter.render()
//! };
//! assert!(scrape().contains("timingwheel_pending{wheel=\"rpc\"} 0"));
//! # Ok(())
//! # }
//! ```
//!
//! Answer Prometheus with the content type `text/plain; version=0.0.4`: without one, Prometheus 3 refuses the scrape.
//!
//! # The metrics
//!
//! Each metric has the label `wheel`, which is the wheel's [name](crate::Builder::name). Give each wheel a name of its
//! own. Otherwise the gauges of two wheels overwrite each other, and their counters and histograms are added up. A new
//! wheel that replaces one that has ended may have the old name: its counters then go on.
//!
//! | name | kind, unit | of [`Stats`] |
//! |---|---|---|
//! | `timingwheel_up` | gauge, 1 or 0 | not `ended` |
//! | `timingwheel_overdue_seconds` | gauge, seconds | `overdue` |
//! | `timingwheel_pending` | gauge | `pending` |
//! | `timingwheel_pending_by_level` | gauge for each `level` | `pending_by_level` |
//! | `timingwheel_armed_total` | counter | `armed` |
//! | `timingwheel_fired_total` | counter | `fired` |
//! | `timingwheel_cancelled_total` | counter | `cancelled` |
//! | `timingwheel_cascaded_total` | counter | `cascaded` |
//! | `timingwheel_turns_total` | counter | `turns` |
//! | `timingwheel_refused_total` | counter | `refused` |
//! | `timingwheel_stalls_total` | counter | `stalls` |
//! | `timingwheel_wakers_panicked_total` | counter | `wakers_panicked` |
//! | `timingwheel_lateness_seconds` | histogram, seconds | `lateness` |
//!
//! # The histogram
//!
//! It is an ordinary histogram of the crate `metrics`. Give the exporter for Prometheus these [`BUCKETS`], or it makes a
//! summary instead. With the buckets, `histogram_quantile(0.99, rate(timingwheel_lateness_seconds_bucket[5m]))` is the
//! 99th percentile of one process. For all processes together, sum the rates by `le` first.
//!
//! [`record`](WheelMetrics::record) hands over only the durations since its last call. Each duration is rounded up to
//! the longest duration of its bucket in [`Stats`], by at most a sixteenth. So the histogram's sum is rounded up too.
//!
//! Each duration is handed over alone, and the exporter for Prometheus keeps it until it renders the metrics: 16 bytes
//! for each timer that fired since the last scrape. Timers that were cancelled add none. If millions fire between two
//! scrapes, call `record` and the exporter's `run_upkeep` more often than it is scraped.

use std::sync::Mutex;

use ::metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};

use crate::handle::TimingWheel;
use crate::platform::sync::lock_hidden;
use crate::telemetry::histogram::Histogram;
use crate::telemetry::stats::Stats;

/// The shortest and the longest of [`BUCKETS`], as powers of two of nanoseconds.
const SHORTEST: usize = 14;
const LONGEST: usize = 36;

/// Bounds of the histogram's buckets, in seconds: powers of two of nanoseconds, from 16 µs to 69 s.
///
/// Buckets of [`Histogram`] end there too, so an exporter's counts by these bounds are exact to the nanosecond.
pub const BUCKETS: [f64; LONGEST - SHORTEST + 1] = {
    let mut bounds = [0.0; LONGEST - SHORTEST + 1];
    let mut number = 0;
    while number < bounds.len() {
        bounds[number] = (1_u64 << (SHORTEST + number)) as f64 / 1e9;
        number += 1;
    }
    bounds
};

/// Its name, what it counts, and the count.
type Counter = (&'static str, &'static str, fn(&Stats) -> u64);

const COUNTERS: [Counter; 8] = [
    ("timingwheel_armed_total", "Timers that were armed.", |stats| stats.armed),
    ("timingwheel_fired_total", "Timers whose deadline came.", |stats| stats.fired),
    ("timingwheel_cancelled_total", "Timers that did not reach their deadline.", |stats| stats.cancelled),
    ("timingwheel_cascaded_total", "Moves of a timer from bucket to bucket.", |stats| stats.cascaded),
    ("timingwheel_turns_total", "Turns of the wheel.", |stats| stats.turns),
    ("timingwheel_refused_total", "Timers that the bound refused.", |stats| stats.refused),
    (
        "timingwheel_stalls_total",
        "Times that a turn was more than 10 ms late, once for each backlog.",
        |stats| stats.stalls,
    ),
    ("timingwheel_wakers_panicked_total", "Wakers that panicked.", |stats| stats.wakers_panicked),
];

/// Tells the recorder what the metrics mean, once, after it has been installed.
///
/// # Panics
/// Never, if the recorder does not.
pub fn describe() {
    describe_gauge!("timingwheel_up", "1, or 0 if the wheel has ended.");
    let overdue = "How far the wheel is behind, beyond the lateness that it promises.";
    describe_gauge!("timingwheel_overdue_seconds", Unit::Seconds, overdue);
    for (name, text) in [
        ("timingwheel_pending", "Timers that are pending."),
        ("timingwheel_pending_by_level", "Timers that stand on a level of the wheel."),
    ] {
        describe_gauge!(name, Unit::Count, text);
    }
    for (name, text, _) in COUNTERS {
        describe_counter!(name, Unit::Count, text);
    }
    let late = "How long after its deadline a timer fired.";
    describe_histogram!("timingwheel_lateness_seconds", Unit::Seconds, late);
}

/// Hands a wheel's statistics to the recorder, and remembers which part of them it has handed over.
///
/// Make one for each wheel, and keep it as long as the exporter: a second one for the same wheel counts everything once
/// more. Install the recorder before the first [`record`](Self::record), or the counts are lost. This holds a handle of
/// the wheel. So the wheel does not end before this is dropped, unless somebody shuts the wheel down.
#[derive(Debug)]
pub struct WheelMetrics {
    wheel: TimingWheel,
    /// The statistics that were handed over last.
    told: Mutex<Stats>,
}

impl WheelMetrics {
    /// For `wheel`, from its beginning on.
    #[must_use]
    pub fn new(wheel: &TimingWheel) -> Self {
        Self { wheel: wheel.clone(), told: Mutex::default() }
    }

    /// Hands the statistics to the recorder: gauges as they are now, and the increase of counters and histograms since
    /// the last call.
    ///
    /// Locks each shard for a moment, as [`TimingWheel::stats`] does, and calls the recorder after that. Calls at the same
    /// time wait for each other.
    ///
    /// # Panics
    /// Never, if the recorder does not.
    pub fn record(&self) {
        // Locked before the statistics are taken, so that these are never older than the last.
        let mut told = lock_hidden(&self.told);
        let stats = self.wheel.stats();
        let wheel = || ("wheel", self.wheel.name().to_owned());
        let since = stats.since(&told);
        record_state(&stats, wheel);
        record_counts(&since, wheel);
        record_durations(&histogram!("timingwheel_lateness_seconds", &[wheel()]), &since.lateness);
        *told = stats;
    }
}

fn record_state(stats: &Stats, label: impl Fn() -> (&'static str, String)) {
    gauge!("timingwheel_up", &[label()]).set(if stats.ended { 0.0 } else { 1.0 });
    gauge!("timingwheel_overdue_seconds", &[label()]).set(stats.overdue);
    gauge!("timingwheel_pending", &[label()]).set(stats.pending as f64);
    for (level, &pending) in stats.pending_by_level.iter().enumerate() {
        let labels = [label(), ("level", level.to_string())];
        gauge!("timingwheel_pending_by_level", &labels).set(pending as f64);
    }
}

/// Adds the increase since the last call to the counters. Totals would not do: a recorder keeps the greatest total that it
/// gets, so it would ignore a new wheel under an old name until its totals exceed the old ones.
fn record_counts(since: &Stats, label: impl Fn() -> (&'static str, String)) {
    for (name, _, count) in COUNTERS {
        counter!(name, &[label()]).increment(count(since));
    }
}

fn record_durations(metric: &::metrics::Histogram, since: &Histogram) {
    for (durations, count) in since.buckets() {
        // On a machine of 32 bits, more do not come between two calls.
        metric.record_many(durations.end().as_secs_f64(), usize::try_from(count).unwrap_or(usize::MAX));
    }
}
