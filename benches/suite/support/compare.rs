//! Rounds in pairs: ours and the rival's in turn, so that a noisy machine disturbs both alike, and medians.

use std::time::{Duration, Instant};

use super::scale::Scale;
use super::text::{Unit, number};

/// What both sides took, and how they compare.
#[derive(Clone, Debug)]
pub(crate) struct Comparison {
    pub(crate) name: &'static str,
    pub(crate) unit: Unit,
    /// The median of our rounds.
    pub(crate) ours: f64,
    /// The median of the rival's rounds.
    pub(crate) rival: f64,
    /// The median of the ratios of the pairs, ours divided by the rival's. Not the ratio of the medians: the two sides
    /// of a pair ran at nearly the same time.
    pub(crate) ratio: f64,
}

impl Comparison {
    /// As cells: what, ours, the rival's, the ratio.
    pub(crate) fn cells(&self) -> Vec<String> {
        vec![self.name.into(), self.unit.show(self.ours), self.unit.show(self.rival), number(self.ratio)]
    }
}

/// Runs both sides in turn. Each returns the time that it took for `operations` operations.
pub(crate) fn compare(
    scale: Scale,
    name: &'static str,
    operations: usize,
    mut ours: impl FnMut() -> Duration,
    mut rival: impl FnMut() -> Duration,
) -> Comparison {
    let per_operation = |time: Duration| time.as_nanos() as f64 / operations as f64;
    compare_values(scale, name, Unit::Nanos, || per_operation(ours()), || per_operation(rival()))
}

/// Runs both sides in turn. Each returns its value in `unit`. The first pair, in which caches and pools get warm, does
/// not count.
pub(crate) fn compare_values(
    scale: Scale,
    name: &'static str,
    unit: Unit,
    mut ours: impl FnMut() -> f64,
    mut rival: impl FnMut() -> f64,
) -> Comparison {
    // The suite shows it beside the name of the case.
    eprintln!("{name}");
    ours();
    rival();
    let pairs: Vec<(f64, f64)> = (0..scale.rounds())
        .map(|round| {
            // Who goes first alternates, because the second finds the caches as the first left them.
            if round % 2 == 0 {
                let ours = ours();
                (ours, rival())
            } else {
                let rival = rival();
                (ours(), rival)
            }
        })
        .collect();
    Comparison {
        name,
        unit,
        ours: median(pairs.iter().map(|pair| pair.0)),
        rival: median(pairs.iter().map(|pair| pair.1)),
        ratio: median(pairs.iter().map(|pair| pair.0 / pair.1)),
    }
}

/// The middle one; the upper of two.
///
/// # Panics
/// Without values.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The time that `work` takes.
pub(crate) fn time(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}
