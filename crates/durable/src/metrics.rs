//! Statistics of durable timers as metrics of the crate `metrics`, for any exporter. Feature `metrics`.
//!
//! [`DurableMetrics::record`] hands [`stats`](Durable::stats) to the recorder. Call it when the metrics are read, as with those of
//! the wheel in `timingwheel::metrics`. Then the values are fresh, and nothing is done while nobody reads them.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use timingwheel::TimingWheel;
//! use timingwheel_durable::metrics::{self, DurableMetrics};
//! use timingwheel_durable::{Durable, MemoryStore};
//!
//! metrics::describe();
//! let wheel = TimingWheel::builder().name("orders").build()?;
//! let durable = Durable::builder(&wheel, MemoryStore::new()).start().await?;
//! let metrics = DurableMetrics::new(&durable);
//! metrics.record();
//! # Ok(())
//! # }
//! ```
//!
//! # What there is
//!
//! Each metric has the label `wheel`, the name of the wheel. Give each `Durable` a wheel with a name of its own. Under one name
//! the gauges of two overwrite each other, and their counters are added up. So the counters go on if one `Durable` replaces
//! another.
//!
//! | name | kind, unit | of [`Stats`] |
//! |---|---|---|
//! | `timingwheel_durable_up` | gauge, 1 or 0 | neither `stopped` nor `lost` nor `failed` |
//! | `timingwheel_durable_armed` | gauge | `armed` |
//! | `timingwheel_durable_begun` | gauge | `begun` |
//! | `timingwheel_durable_lease_margin_seconds` | gauge, seconds | `lease_margin` |
//! | `timingwheel_durable_clock_offset_seconds` | gauge, seconds | `clock_offset` |
//! | `timingwheel_durable_saved_total` | counter | `saved` |
//! | `timingwheel_durable_save_batches_total` | counter | `save_batches` |
//! | `timingwheel_durable_loads_total` | counter | `loads` |
//! | `timingwheel_durable_loaded_total` | counter | `loaded` |
//! | `timingwheel_durable_attempts_total` | counter | `attempts` |
//! | `timingwheel_durable_done_total` | counter | `done` |
//! | `timingwheel_durable_retried_total` | counter | `retried` |
//! | `timingwheel_durable_snoozed_total` | counter | `snoozed` |
//! | `timingwheel_durable_buried_total` | counter | `buried` |
//! | `timingwheel_durable_skipped_total` | counter | `skipped` |
//! | `timingwheel_durable_removed_total` | counter | `removed` |
//! | `timingwheel_durable_crashes_total` | counter | `crashes` |
//! | `timingwheel_durable_panicked_total` | counter | `panicked` |
//! | `timingwheel_durable_fenced_total` | counter | `fenced` |
//! | `timingwheel_durable_replanned_total` | counter | `replanned` |
//! | `timingwheel_durable_damaged_total` | counter | `damaged` |
//! | `timingwheel_durable_saved_unhandled_total` | counter | `saved_unhandled` |
//! | `timingwheel_durable_store_errors_total` | counter | `store_errors` |
//! | `timingwheel_durable_clock_set_total` | counter | `clock_set` |
//! | `timingwheel_durable_takeovers_total` | counter | `takeovers` |
//! | `timingwheel_durable_renewals_total` | counter | `renewals` |
//! | `timingwheel_durable_rejoined_total` | counter | `rejoined` |
//! | `timingwheel_durable_empty_scans_total` | counter | `empty_scans` |
//! | `timingwheel_durable_lateness_seconds` | histogram, seconds | `lateness` |
//!
//! These have the label `kind` too:
//!
//! | name | kind, unit | of [`KindStats`](crate::KindStats) |
//! |---|---|---|
//! | `timingwheel_durable_kind_waiting` | gauge | `waiting` |
//! | `timingwheel_durable_kind_attempts_total` | counter | `attempts` |
//! | `timingwheel_durable_kind_errors_total` | counter | `errors` |
//! | `timingwheel_durable_kind_lateness_seconds` | histogram, seconds | `lateness` |
//! | `timingwheel_durable_kind_seconds` | histogram, seconds | `took` |
//!
//! The number of stored timers is not here, because it takes a call of the store: [`Durable::count`].
//!
//! A histogram gets the values since the last call, each rounded up to the end of its bucket: by a sixteenth at most.

use std::sync::{Mutex, PoisonError};

use ::metrics::{
    Histogram, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};

use crate::durable::Durable;
use crate::health::Stats;

/// The name without the common parts, the description, and the value.
type Counter = (&'static str, &'static str, fn(&Stats) -> u64);
/// The same, with a unit.
type Gauge = (&'static str, Unit, &'static str, fn(&Stats) -> f64);

/// All names begin with it.
const PREFIX: &str = "timingwheel_durable";

const LATENESS: &str = "timingwheel_durable_lateness_seconds";

// With the label `kind`.
const KIND_WAITING: &str = "timingwheel_durable_kind_waiting";
const KIND_ATTEMPTS: &str = "timingwheel_durable_kind_attempts_total";
const KIND_ERRORS: &str = "timingwheel_durable_kind_errors_total";
const KIND_LATENESS: &str = "timingwheel_durable_kind_lateness_seconds";
const KIND_SECONDS: &str = "timingwheel_durable_kind_seconds";

const GAUGES: [Gauge; 5] = [
    ("up", Unit::Count, "1, or 0 if durable timers were stopped or lost, or have panicked.", |stats| {
        f64::from(!stats.stopped && !stats.lost && !stats.failed)
    }),
    ("armed", Unit::Count, "Timers in memory that have not begun.", |stats| stats.armed as f64),
    ("begun", Unit::Count, "Timers that have begun and not ended.", |stats| stats.begun as f64),
    (
        "lease_margin_seconds",
        Unit::Seconds,
        "How much was left, at the last renewal, of the time in which timers may begin.",
        |stats| stats.lease_margin.as_secs_f64(),
    ),
    (
        "clock_offset_seconds",
        Unit::Seconds,
        "How far the clock by which timers are due is ahead of the instance's own.",
        |stats| stats.clock_offset.as_secs_f64(),
    ),
];

const COUNTERS: [Counter; 23] = [
    ("saved", "Timers that were saved.", |stats| stats.saved),
    ("save_batches", "Saves that went to the store together.", |stats| stats.save_batches),
    ("loads", "Times that the store was asked for what is near.", |stats| stats.loads),
    ("loaded", "Timers that were loaded.", |stats| stats.loaded),
    ("attempts", "Attempts whose handler was called.", |stats| stats.attempts),
    ("done", "Timers that are done.", |stats| stats.done),
    ("retried", "Attempts that are made again.", |stats| stats.retried),
    ("snoozed", "Timers that were put off by their handlers.", |stats| stats.snoozed),
    ("buried", "Timers that were buried.", |stats| stats.buried),
    ("skipped", "Occurrences that were missed and left out.", |stats| stats.skipped),
    ("removed", "Timers that were cancelled while their process ended.", |stats| stats.removed),
    ("crashes", "Attempts that are made again, as their process ended.", |stats| stats.crashes),
    ("panicked", "Handlers that panicked.", |stats| stats.panicked),
    ("fenced", "Results that were refused.", |stats| stats.fenced),
    ("replanned", "Runs of series that were planned anew.", |stats| stats.replanned),
    ("damaged", "Damaged timers, which are kept and not run.", |stats| stats.damaged),
    ("saved_unhandled", "Timers that were saved without a handler.", |stats| stats.saved_unhandled),
    ("store_errors", "Saves, and calls of the runner, that the store failed.", |stats| stats.store_errors),
    ("clock_set", "Times that a clock was found to have been set.", |stats| stats.clock_set),
    ("takeovers", "Shards that were taken over from silent instances.", |stats| stats.takeovers),
    ("renewals", "Times that the lease was renewed.", |stats| stats.renewals),
    ("rejoined", "Times that the lease was lost, and the instance joined again.", |stats| stats.rejoined),
    ("empty_scans", "Scans for what other instances have stored that found nothing.", |stats| {
        stats.empty_scans
    }),
];

fn tell(metric: &Histogram, durations: &timingwheel::Histogram) {
    for (durations, count) in durations.buckets() {
        // More than 32 bits hold do not come between two calls.
        metric.record_many(durations.end().as_secs_f64(), usize::try_from(count).unwrap_or(usize::MAX));
    }
}

fn gauge_name(name: &str) -> String {
    format!("{PREFIX}_{name}")
}

fn counter_name(name: &str) -> String {
    format!("{PREFIX}_{name}_total")
}

/// Tells the recorder what the metrics mean, once, after it has been installed.
///
/// # Panics
/// Never, if the recorder does not.
pub fn describe() {
    for (name, unit, text, _) in GAUGES {
        describe_gauge!(gauge_name(name), unit, text);
    }
    for (name, text, _) in COUNTERS {
        describe_counter!(counter_name(name), Unit::Count, text);
    }
    let text = "How late a handler was called, by the wall clock.";
    describe_histogram!(LATENESS, Unit::Seconds, text);
    describe_histogram!(KIND_LATENESS, Unit::Seconds, text);
    describe_histogram!(KIND_SECONDS, Unit::Seconds, "How long an attempt took.");
    describe_gauge!(KIND_WAITING, Unit::Count, "Timers that are due and wait for a place of their kind.");
    describe_counter!(KIND_ATTEMPTS, Unit::Count, "Attempts whose handler was called.");
    describe_counter!(KIND_ERRORS, Unit::Count, "Attempts that failed.");
}

/// Hands the statistics of a [`Durable`] to the recorder, and remembers which it has handed over.
///
/// Make one for each `Durable`, and keep it as long as the exporter: a second one counts everything once more. Install the
/// recorder first: without one, records are lost. A `DurableMetrics` holds a handle of the timers, so while it lives only
/// [`stop`](Durable::stop) ends them.
#[derive(Debug)]
pub struct DurableMetrics {
    durable: Durable,
    /// The statistics as they were told last.
    told: Mutex<Stats>,
}

impl DurableMetrics {
    /// Of all that `durable` has done so far, and will do.
    #[must_use]
    pub fn new(durable: &Durable) -> Self {
        Self { durable: durable.clone(), told: Mutex::default() }
    }

    /// Hands the statistics to the recorder: gauges as they are now, counters and the histogram since the last call.
    /// Calls at the same time wait for each other.
    ///
    /// # Panics
    /// Never, if the recorder does not.
    pub fn record(&self) {
        // Locked before the statistics are taken, so that they are never older than the last ones handed over.
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let stats = self.durable.stats();
        let label = || [("wheel", self.durable.0.wheel.name().to_owned())];
        for (name, _, _, value) in GAUGES {
            gauge!(gauge_name(name), &label()).set(value(&stats));
        }
        for (name, _, count) in COUNTERS {
            // Not the total: a recorder keeps the greatest, which may be that of an ended `Durable`.
            counter!(counter_name(name), &label()).increment(count(&stats).saturating_sub(count(&told)));
        }
        tell(&histogram!(LATENESS, &label()), &stats.lateness.since(&told.lateness));
        for (kind, now) in &stats.kinds {
            let label = || [("wheel", self.durable.0.wheel.name().to_owned()), ("kind", (*kind).to_owned())];
            let before = told.kinds.remove(kind).unwrap_or_default();
            gauge!(KIND_WAITING, &label()).set(now.waiting as f64);
            counter!(KIND_ATTEMPTS, &label()).increment(now.attempts - before.attempts);
            counter!(KIND_ERRORS, &label()).increment(now.errors - before.errors);
            tell(&histogram!(KIND_LATENESS, &label()), &now.lateness.since(&before.lateness));
            tell(&histogram!(KIND_SECONDS, &label()), &now.took.since(&before.took));
        }
        *told = stats;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::SignedDuration;

    use super::*;

    #[test]
    fn what_an_instance_tells_of_its_lease_is_of_its_own_statistics() {
        let stats = Stats {
            takeovers: 1,
            renewals: 2,
            rejoined: 3,
            empty_scans: 4,
            lease_margin: Duration::from_millis(5_500),
            clock_offset: SignedDuration::from_millis(-6_500),
            ..Stats::default()
        };
        let counters = COUNTERS.map(|(name, _, count)| (counter_name(name), count(&stats) as f64));
        let gauges = GAUGES.map(|(name, _, _, value)| (gauge_name(name), value(&stats)));
        let told: Vec<_> = counters.into_iter().chain(gauges).filter(|(_, value)| *value != 0.0).collect();
        let expected = [
            ("takeovers_total", 1.0),
            ("renewals_total", 2.0),
            ("rejoined_total", 3.0),
            ("empty_scans_total", 4.0),
            ("up", 1.0),
            ("lease_margin_seconds", 5.5),
            ("clock_offset_seconds", -6.5),
        ];
        assert_eq!(told, expected.map(|(name, value)| (format!("timingwheel_durable_{name}"), value)));
    }
}
