//! Statistics of durable timers as metrics of the crate `metrics`, for whatever exporter is installed. Feature `metrics`.
//!
//! [`DurableMetrics::record`] takes [`stats`](Durable::stats) and hands them to the recorder. Call it where the metrics are
//! read, as with the wheel's own in `timingwheel::metrics`: so the values are fresh, and nothing is done while nobody looks.
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
//! Each has the label `wheel`, the name of the wheel. Give each `Durable` a wheel with a name of its own: gauges and
//! counters of two under one name overwrite each other.
//!
//! | name | kind, unit | of [`Stats`] |
//! |---|---|---|
//! | `timingwheel_durable_up` | gauge, 1 or 0 | neither `stopped` nor `lost` |
//! | `timingwheel_durable_armed` | gauge | `armed` |
//! | `timingwheel_durable_begun` | gauge | `begun` |
//! | `timingwheel_durable_ahead_seconds` | gauge, seconds | `ahead` |
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
//! | `timingwheel_durable_taken_back_total` | counter | `taken_back` |
//! | `timingwheel_durable_panicked_total` | counter | `panicked` |
//! | `timingwheel_durable_fenced_total` | counter | `fenced` |
//! | `timingwheel_durable_store_errors_total` | counter | `store_errors` |
//! | `timingwheel_durable_clock_set_total` | counter | `clock_set` |
//! | `timingwheel_durable_lateness_seconds` | histogram, seconds | `lateness` |
//!
//! How many timers are stored is the store's to say, and takes a call of it: [`Durable::count`].
//!
//! The histogram is told what came since the last call, each value as the longest of its bucket: never less than the truth,
//! and more by a sixteenth at the most.

use std::sync::{Mutex, PoisonError};

use ::metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use timingwheel::monitor::Histogram;

use crate::durable::Durable;
use crate::stats::Stats;

/// The counters: name, what it counts, and where that stands.
type Counter = (&'static str, &'static str, fn(&Stats) -> u64);

const COUNTERS: [Counter; 15] = [
    ("timingwheel_durable_saved_total", "Timers that were saved.", |stats| stats.saved),
    ("timingwheel_durable_save_batches_total", "Saves that went to the store together.", |stats| {
        stats.save_batches
    }),
    ("timingwheel_durable_loads_total", "Times that the store was asked for what is near.", |stats| {
        stats.loads
    }),
    ("timingwheel_durable_loaded_total", "Timers that were loaded.", |stats| stats.loaded),
    ("timingwheel_durable_attempts_total", "Attempts whose handler was called.", |stats| stats.attempts),
    ("timingwheel_durable_done_total", "Timers that are done.", |stats| stats.done),
    ("timingwheel_durable_retried_total", "Attempts that are made again.", |stats| stats.retried),
    ("timingwheel_durable_snoozed_total", "Timers that were put off by their handlers.", |stats| {
        stats.snoozed
    }),
    ("timingwheel_durable_buried_total", "Timers that were put aside.", |stats| stats.buried),
    ("timingwheel_durable_skipped_total", "Occurrences that were missed and left out.", |stats| {
        stats.skipped
    }),
    ("timingwheel_durable_taken_back_total", "Timers that were taken back after their begin.", |stats| {
        stats.taken_back
    }),
    ("timingwheel_durable_panicked_total", "Handlers that panicked.", |stats| stats.panicked),
    ("timingwheel_durable_fenced_total", "Results that were refused.", |stats| stats.fenced),
    ("timingwheel_durable_store_errors_total", "Calls of the store that failed.", |stats| stats.store_errors),
    ("timingwheel_durable_clock_set_total", "Times that a clock was found to have been set.", |stats| {
        stats.clock_set
    }),
];

/// Tells the recorder what the metrics mean, once, after it has been installed.
///
/// # Panics
/// Never, if the recorder does not.
pub fn describe() {
    describe_gauge!("timingwheel_durable_up", "1, or 0 if durable timers were stopped or followed.");
    describe_gauge!("timingwheel_durable_armed", Unit::Count, "Timers in memory that have not begun.");
    describe_gauge!("timingwheel_durable_begun", Unit::Count, "Timers that have begun and not ended.");
    describe_gauge!(
        "timingwheel_durable_ahead_seconds",
        Unit::Seconds,
        "How far ahead of their time timers are begun."
    );
    for (name, text, _) in COUNTERS {
        describe_counter!(name, Unit::Count, text);
    }
    describe_histogram!(
        "timingwheel_durable_lateness_seconds",
        Unit::Seconds,
        "How late a handler was called, by the clock on the wall."
    );
}

/// What hands the statistics of a [`Durable`] to the recorder. It remembers how much of the histogram it has told.
///
/// Make one for each `Durable`, and keep it as long as the exporter. It holds a handle: so the last one is not dropped
/// before it is, and only [`stop`](Durable::stop) ends the timers.
#[derive(Debug)]
pub struct DurableMetrics {
    durable: Durable,
    /// The histogram as it was told last.
    told: Mutex<Histogram>,
}

impl DurableMetrics {
    /// Of all that `durable` has done so far, and will do.
    #[must_use]
    pub fn new(durable: &Durable) -> Self {
        Self { durable: durable.clone(), told: Mutex::default() }
    }

    /// Hands the statistics to the recorder: gauges and counters as they are now, and what came to the histogram since the
    /// last call. Calls at the same time wait for each other.
    ///
    /// # Panics
    /// Never, if the recorder does not.
    pub fn record(&self) {
        // Before the statistics are taken, so that nobody's are older than what was told.
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let stats = self.durable.stats();
        let label = || [("wheel", self.durable.0.wheel.name().to_owned())];
        let is_up = !stats.stopped && !stats.lost;
        gauge!("timingwheel_durable_up", &label()).set(if is_up { 1.0 } else { 0.0 });
        gauge!("timingwheel_durable_armed", &label()).set(stats.armed as f64);
        gauge!("timingwheel_durable_begun", &label()).set(stats.begun as f64);
        gauge!("timingwheel_durable_ahead_seconds", &label()).set(stats.ahead);
        for (name, _, count) in COUNTERS {
            counter!(name, &label()).absolute(count(&stats));
        }
        let metric = histogram!("timingwheel_durable_lateness_seconds", &label());
        for (durations, count) in stats.lateness.since(&told).buckets() {
            // More than 32 bits hold do not come between two calls.
            metric.record_many(durations.end().as_secs_f64(), usize::try_from(count).unwrap_or(usize::MAX));
        }
        *told = stats.lateness;
    }
}
