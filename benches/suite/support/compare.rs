//! Rounds: ours and the rival's in turn, so that a noisy machine disturbs both alike, and medians.

use std::time::{Duration, Instant};

use super::scale::Scale;
use super::table::{DRAW, target};
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
    /// Whether the difference is within the noise: in the middle half of the pairs each side won some, or the medians
    /// say the opposite of the ratio.
    pub(crate) is_draw: bool,
}

impl Comparison {
    /// Of pairs of ours and the rival's.
    pub(crate) fn of(name: &'static str, unit: Unit, pairs: &[(f64, f64)]) -> Self {
        let median_of = |value: fn(&(f64, f64)) -> f64| median(pairs.iter().map(value));
        let (ours, rival) = (median_of(|pair| pair.0), median_of(|pair| pair.1));
        let [lower, ratio, upper] = quartiles(pairs.iter().map(|pair| pair.0 / pair.1));
        let is_opposite = (ours - rival) * (ratio - 1.0) <= 0.0;
        Self { name, unit, ours, rival, ratio, is_draw: (lower <= 1.0 && upper >= 1.0) || is_opposite }
    }

    /// As cells: what, ours, the rival's, the ratio.
    pub(crate) fn cells(&self) -> Vec<String> {
        vec![self.name.into(), self.unit.show(self.ours), self.unit.show(self.rival), self.ratio_cell()]
    }

    /// The ratio, marked if it is a draw.
    pub(crate) fn ratio_cell(&self) -> String {
        let ratio = number(self.ratio);
        if self.is_draw { format!("{ratio} {DRAW}") } else { ratio }
    }

    /// What the ratio shall be at most, and whether it is, as a cell. Without a limit it is there to be seen.
    pub(crate) fn target(&self, limit: Option<f64>) -> String {
        // As they are shown, so that a reader comes to the same verdict.
        let shown = |value: f64| (value * 100.0).round();
        limit.map(|limit| target(limit, shown(self.ratio) <= shown(limit))).unwrap_or_default()
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
    // The suite shows it beside the name of the case.
    eprintln!("{name}");
    // In them caches and pools get warm; they do not count.
    ours();
    rival();
    let rounds = rounds(scale.rounds(), &mut [&mut ours, &mut rival]);
    let per_operation = |time: Duration| time.as_nanos() as f64 / operations as f64;
    let pairs: Vec<_> =
        rounds.iter().map(|sides| (per_operation(sides[0]), per_operation(sides[1]))).collect();
    Comparison::of(name, Unit::Nanos, &pairs)
}

/// Runs all sides in each round. The order alternates, because each finds the caches as the one before left them.
/// Returns what they found, by round and in it by side.
pub(crate) fn rounds<T>(count: usize, sides: &mut [&mut dyn FnMut() -> T]) -> Vec<Vec<T>> {
    (0..count)
        .map(|round| {
            if round % 2 == 0 {
                sides.iter_mut().map(|side| side()).collect()
            } else {
                let mut found: Vec<T> = sides.iter_mut().rev().map(|side| side()).collect();
                found.reverse();
                found
            }
        })
        .collect()
}

/// The middle one; the upper of two.
///
/// # Panics
/// Without values.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    quartiles(values)[1]
}

/// The lower quartile, the median and the upper quartile.
///
/// # Panics
/// Without values.
pub(crate) fn quartiles(values: impl IntoIterator<Item = f64>) -> [f64; 3] {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarters| values[values.len() * quarters / 4])
}

/// The time that `work` takes.
pub(crate) fn time(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}
