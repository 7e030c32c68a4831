//! Counts of deadlines as metrics of the crate `metrics`, for any exporter. Feature `metrics`.
//!
//! [`DeadlineMetrics::record`] hands the recorder what [`DeadlineCounters`] have counted since its last call. Call it where
//! the metrics are read, for example just before an exporter renders them for a scrape.
//!
//! ```
//! use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};
//! use timingwheel_deadline::DeadlineCounters;
//! use timingwheel_deadline::metrics::{self, DeadlineMetrics};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let exporter = PrometheusBuilder::new()
//!     .set_buckets_for_metric(Matcher::Prefix("timingwheel_deadline_".into()), &metrics::BUCKETS)?
//!     .install_recorder()?;
//! metrics::describe();
//!
//! let requests = DeadlineCounters::new();
//! let metrics = DeadlineMetrics::new("rpc", &requests);
//! let scrape = || {
//!     metrics.record();
//!     exporter.render()
//! };
//! assert!(scrape().contains("timingwheel_deadline_too_late_total{requests=\"rpc\"} 0"));
//! # Ok(())
//! # }
//! ```
//!
//! Each metric has the label `requests`: the name that you give.
//!
//! | name | kind | of [`DeadlineStats`] |
//! |---|---|---|
//! | `timingwheel_deadline_used_ratio` | histogram, from 0 to 1 | `used`, each request at the upper end of its tenth |
//! | `timingwheel_deadline_too_late_total` | counter | `too_late` |
//! | `timingwheel_deadline_passed_total` | counter for each `depth` | `passed` |
//! | `timingwheel_deadline_cancelled_total` | counter for each `depth` | `cancelled` |
//!
//! `depth` is `0` for the requests' own deadlines, `1` for their children and calls with a limit, and so on up to `7`,
//! which counts all that are deeper too.

use std::sync::{Mutex, PoisonError};

use ::metrics::{Unit, counter, describe_counter, describe_histogram, histogram};

use crate::{DeadlineCounters, DeadlineStats};

/// Bounds of buckets for the histogram: the tenths.
pub const BUCKETS: [f64; 10] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0];

/// Tells the recorder what the metrics mean, once, after it has been installed.
///
/// # Panics
/// Never, if the recorder does not.
pub fn describe() {
    let about = "The share of their time that requests used which ended in time.";
    describe_histogram!("timingwheel_deadline_used_ratio", Unit::Count, about);
    describe_counter!("timingwheel_deadline_too_late_total", Unit::Count, "Requests that had no time left.");
    describe_counter!("timingwheel_deadline_passed_total", Unit::Count, "Deadlines that passed.");
    describe_counter!("timingwheel_deadline_cancelled_total", Unit::Count, "Deadlines that were cancelled.");
}

/// Hands counts to the recorder, and remembers which part of them it has handed over.
///
/// Make one for each [`DeadlineCounters`], and keep it as long as the exporter: a second one counts everything once more.
/// Install the recorder first: what is recorded without one is lost.
#[derive(Debug)]
pub struct DeadlineMetrics {
    name: String,
    counters: DeadlineCounters,
    told: Mutex<DeadlineStats>,
}

impl DeadlineMetrics {
    /// Of `counters`, with `name` as the label `requests`.
    pub fn new(name: impl Into<String>, counters: &DeadlineCounters) -> Self {
        Self { name: name.into(), counters: counters.clone(), told: Mutex::default() }
    }

    /// Hands over what was counted since the last call. Calls at the same time wait for each other.
    ///
    /// # Panics
    /// Never, if the recorder does not.
    pub fn record(&self) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let stats = self.counters.stats();
        let name = || ("requests", self.name.clone());
        let used = histogram!("timingwheel_deadline_used_ratio", &[name()]);
        for (tenth, (now, before)) in stats.used.iter().zip(told.used).enumerate() {
            used.record_many(BUCKETS[tenth], usize::try_from(now - before).unwrap_or(usize::MAX));
        }
        counter!("timingwheel_deadline_too_late_total", &[name()]).increment(stats.too_late - told.too_late);
        for depth in 0..stats.passed.len() {
            let labels = [name(), ("depth", depth.to_string())];
            let (passed, cancelled) = (stats.passed[depth], stats.cancelled[depth]);
            counter!("timingwheel_deadline_passed_total", &labels).increment(passed - told.passed[depth]);
            counter!("timingwheel_deadline_cancelled_total", &labels)
                .increment(cancelled - told.cancelled[depth]);
        }
        *told = stats;
    }
}
