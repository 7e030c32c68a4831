//! The highest rate that is sustained.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::task::coop::unconstrained;

use super::replay::{Run, Watch, replay};
use super::schedule::{Latency, Schedule};
use crate::support::Scale;

/// How long requests arrive in a run: five timeouts, so for most of it as many are pending as ever will be.
const DURATION: Duration = Duration::from_secs(1);
const TEST_DURATION: Duration = Duration::from_millis(20);
pub(super) const ATTEMPTS: usize = 3;
const LOWEST_RATE: f64 = 25_000.0;
const HIGHEST_RATE: f64 = 8_000_000.0;
pub(super) const STEP: f64 = 1.15;

/// All runs of a search, and the one at the highest rate that was sustained.
pub(super) struct Found {
    pub(super) highest: Option<Run>,
    pub(super) runs: Vec<Run>,
}

pub(super) fn search<W: Watch>(scale: Scale, runtime: &Runtime, latency: Latency) -> Found {
    let rates: Vec<f64> = std::iter::successors(Some(LOWEST_RATE), |rate| {
        Some(rate * STEP).filter(|&rate| !scale.is_test() && rate <= HIGHEST_RATE)
    })
    .collect();
    let mut found = Found { highest: None, runs: Vec::new() };
    // Rates before `low` are sustained, those from `high` on are not.
    let (mut low, mut high) = (0, rates.len());
    while low < high {
        let middle = usize::midpoint(low, high);
        let run = run::<W>(scale, runtime, latency, rates[middle]);
        if run.is_sustained {
            low = middle + 1;
            found.highest = Some(run);
        } else {
            high = middle;
        }
        found.runs.push(run);
    }
    found.runs.sort_by(|a, b| a.rate.total_cmp(&b.rate));
    found
}

/// Runs at a rate, and again if that does not keep up: something else may have kept the machine busy.
pub(super) fn run<W: Watch>(scale: Scale, runtime: &Runtime, latency: Latency, rate: f64) -> Run {
    let duration = if scale.is_test() { TEST_DURATION } else { DURATION };
    let schedule = Arc::new(Schedule::random(latency, rate, duration));
    let once = || {
        let schedule = schedule.clone();
        // In a task, as some timers may be made in another way elsewhere. A budget would cut it short.
        let task = runtime.spawn(unconstrained(async move { replay::<W>(&schedule, rate, duration).await }));
        runtime.block_on(task).expect("a run does not panic")
    };
    let mut run = once();
    for _ in 1..ATTEMPTS {
        if run.is_sustained {
            break;
        }
        run = once();
    }
    run
}
