//! A wheel's statistics as metrics of the crate `metrics`, for whatever exporter is installed. Feature `metrics`.
//!
//! [`record`] takes a wheel's [`stats`](TimingWheel::stats) and hands them to the recorder. Call it where the metrics
//! are read: before an exporter that is scraped renders them, or before one that pushes does. So the values are fresh,
//! nothing is done while nobody looks, and no task of ours needs an interval, a runtime and an end.
//!
//! ```
//! use timingwheel::{TimingWheel, metrics};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), timingwheel::BuildError> {
//! let exporter = metrics_exporter_prometheus::PrometheusBuilder::new().install_recorder().expect("the first");
//! metrics::describe();
//!
//! let wheel = TimingWheel::builder().name("rpc").build()?;
//! let scrape = || {
//!     metrics::record(&wheel);
//!     exporter.render()
//! };
//! assert!(scrape().contains("timingwheel_pending{wheel=\"rpc\"} 0"));
//! # Ok(())
//! # }
//! ```
//!
//! # What there is
//!
//! Each has the label `wheel`, its [name](crate::Builder::name): two wheels of one name overwrite each other.
//!
//! | name | kind, unit | of [`Stats`] |
//! |---|---|---|
//! | `timingwheel_up` | gauge, 1 or 0 | not `ended` |
//! | `timingwheel_overdue_seconds` | gauge, seconds | `overdue` |
//! | `timingwheel_pending` | gauge | `pending` |
//! | `timingwheel_pending_by_level` | gauge for each `level` | `pending_by_level` |
//! | `timingwheel_pending_tolerant` | gauge | `pending_tolerant` |
//! | `timingwheel_armed_total` | counter | `armed` |
//! | `timingwheel_fired_total` | counter | `fired` |
//! | `timingwheel_cancelled_total` | counter | `cancelled` |
//! | `timingwheel_cascaded_total` | counter | `cascaded` |
//! | `timingwheel_turns_total` | counter | `turns` |
//! | `timingwheel_refused_total` | counter | `refused` |
//! | `timingwheel_stalls_total` | counter | `stalls` |
//! | `timingwheel_wakers_panicked_total` | counter | `wakers_panicked` |
//! | `timingwheel_jobs_panicked_total` | counter | `jobs_panicked` |
//! | `timingwheel_lateness_seconds_bucket` | counter for each `le`, seconds | `lateness` |
//! | `timingwheel_lock_hold_seconds_bucket` | counter for each `le`, seconds | `lock_holds` |
//!
//! # Histograms
//!
//! They are counters of what was at most `le` seconds, as Prometheus lays a histogram out, so
//! `histogram_quantile(0.99, rate(timingwheel_lateness_seconds_bucket[5m]))` tells what 99 % were within, of all
//! processes together if need be. The bounds are powers of two of nanoseconds, from 16 µs to 69 s, and infinity.
//! The facade's own histograms take each value by itself, and an exporter keeps them until it is scraped: eight bytes
//! for each timer that has fired.

use std::time::Duration;

use ::metrics::{Unit, counter, describe_counter, describe_gauge, gauge};

use crate::handle::timing_wheel::TimingWheel;
use crate::telemetry::histogram::Histogram;
use crate::telemetry::stats::Stats;

/// The bounds of buckets, as powers of two of nanoseconds.
const BOUNDS: std::ops::RangeInclusive<u32> = 14..=36;

/// Tells the recorder what the metrics mean, once, after it has been installed.
///
/// # Panics
/// Never, if the recorder does not.
pub fn describe() {
    describe_gauge!("timingwheel_up", "1, or 0 if the wheel has ended.");
    describe_gauge!(
        "timingwheel_overdue_seconds",
        Unit::Seconds,
        "How far the wheel is behind, beyond one tick."
    );
    describe_gauge!("timingwheel_pending", Unit::Count, "Timers that are registered.");
    describe_gauge!(
        "timingwheel_pending_by_level",
        Unit::Count,
        "Timers that stand on a level of the wheel."
    );
    describe_gauge!(
        "timingwheel_pending_tolerant",
        Unit::Count,
        "Timers that stand on levels for such with a tolerance."
    );
    describe_counter!("timingwheel_armed_total", Unit::Count, "Timers that were registered.");
    describe_counter!("timingwheel_fired_total", Unit::Count, "Timers whose deadline came.");
    describe_counter!(
        "timingwheel_cancelled_total",
        Unit::Count,
        "Timers that did not reach their deadline."
    );
    describe_counter!("timingwheel_cascaded_total", Unit::Count, "Moves of a timer from bucket to bucket.");
    describe_counter!("timingwheel_turns_total", Unit::Count, "Turns of the wheel.");
    describe_counter!("timingwheel_refused_total", Unit::Count, "Timers that the bound refused.");
    describe_counter!("timingwheel_stalls_total", Unit::Count, "Turns that were more than 10 ms late.");
    describe_counter!("timingwheel_wakers_panicked_total", Unit::Count, "Wakers that panicked.");
    describe_counter!("timingwheel_jobs_panicked_total", Unit::Count, "Jobs that panicked.");
    describe_counter!(
        "timingwheel_lateness_seconds_bucket",
        Unit::Count,
        "Timers that fired at most so many seconds after their deadline."
    );
    describe_counter!(
        "timingwheel_lock_hold_seconds_bucket",
        Unit::Count,
        "Times that a turn held a shard's lock for at most so many seconds."
    );
}

/// Hands the statistics of `wheel` to the recorder.
///
/// Locks each shard for a moment, one after the other, as [`TimingWheel::stats`] does; the recorder is called after
/// that.
///
/// # Panics
/// Never, if the recorder does not.
pub fn record(wheel: &TimingWheel) {
    let stats = wheel.stats();
    let name = wheel.name();
    let label = || ("wheel", name.to_owned());
    let Stats { pending_by_level, lateness, lock_holds, .. } = &stats;

    gauge!("timingwheel_up", &[label()]).set(if stats.ended { 0.0 } else { 1.0 });
    gauge!("timingwheel_overdue_seconds", &[label()]).set(stats.overdue);
    gauge!("timingwheel_pending", &[label()]).set(stats.pending as f64);
    for (level, &pending) in pending_by_level.iter().enumerate() {
        let labels = [label(), ("level", level.to_string())];
        gauge!("timingwheel_pending_by_level", &labels).set(pending as f64);
    }
    gauge!("timingwheel_pending_tolerant", &[label()]).set(stats.pending_tolerant as f64);
    counter!("timingwheel_armed_total", &[label()]).absolute(stats.armed);
    counter!("timingwheel_fired_total", &[label()]).absolute(stats.fired);
    counter!("timingwheel_cancelled_total", &[label()]).absolute(stats.cancelled);
    counter!("timingwheel_cascaded_total", &[label()]).absolute(stats.cascaded);
    counter!("timingwheel_turns_total", &[label()]).absolute(stats.turns);
    counter!("timingwheel_refused_total", &[label()]).absolute(stats.refused);
    counter!("timingwheel_stalls_total", &[label()]).absolute(stats.stalls);
    counter!("timingwheel_wakers_panicked_total", &[label()]).absolute(stats.wakers_panicked);
    counter!("timingwheel_jobs_panicked_total", &[label()]).absolute(stats.jobs_panicked);
    for (le, count) in cumulative(lateness) {
        counter!("timingwheel_lateness_seconds_bucket", &[label(), ("le", le)]).absolute(count);
    }
    for (le, count) in cumulative(lock_holds) {
        counter!("timingwheel_lock_hold_seconds_bucket", &[label(), ("le", le)]).absolute(count);
    }
}

/// How many were up to each bound, and the bound in seconds.
fn cumulative(histogram: &Histogram) -> impl Iterator<Item = (String, u64)> {
    let bounded = BOUNDS.map(|power| {
        let bound = 1_u64 << power;
        // A histogram's bucket ends a nanosecond before it.
        let count = histogram.count_up_to(Duration::from_nanos(bound - 1));
        (Duration::from_nanos(bound).as_secs_f64().to_string(), count)
    });
    bounded.chain([("+Inf".to_owned(), histogram.count())])
}
