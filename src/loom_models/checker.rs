//! The checker that runs the models: loom tries every order of their threads, shuttle random orders.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

#[cfg(not(shuttle))]
pub(super) use loom::{future::block_on, thread};
#[cfg(shuttle)]
pub(super) use shuttle::{future::block_on, thread};

/// Runs `model` in every order of its threads, and asserts that its outcomes are `outcomes`.
pub(super) fn check<const N: usize>(
    outcomes: [&'static str; N],
    model: impl Fn() -> &'static str + Send + Sync + 'static,
) {
    check_within(None, outcomes, model);
}

/// As [`check`], for a model with too many orders. It runs those in which threads interrupt each other at most three
/// times, or as often as the environment's `LOOM_MAX_PREEMPTIONS` says.
pub(super) fn check_most<const N: usize>(
    outcomes: [&'static str; N],
    model: impl Fn() -> &'static str + Send + Sync + 'static,
) {
    check_within(Some(3), outcomes, model);
}

fn check_within<const N: usize>(
    interruptions: Option<usize>,
    outcomes: [&'static str; N],
    model: impl Fn() -> &'static str + Send + Sync + 'static,
) {
    let seen = Arc::new(Mutex::new(BTreeSet::new()));
    let executions = Arc::new(AtomicUsize::new(0));
    run(interruptions, {
        let (seen, executions) = (seen.clone(), executions.clone());
        move || {
            let outcome = model();
            seen.lock().expect("nothing panics under it").insert(outcome);
            executions.fetch_add(1, Ordering::Relaxed);
        }
    });
    println!("{} executions", executions.load(Ordering::Relaxed));
    let (seen, outcomes) = (seen.lock().expect("nothing panics under it"), BTreeSet::from(outcomes));
    // Random orders are likely to miss an outcome that takes a few interruptions at just the right places, unless
    // threads have priorities.
    let has_all = cfg!(not(shuttle)) || interruptions.is_some();
    assert!(seen.is_subset(&outcomes) && (seen.len() == N || !has_all), "{seen:?}, not {outcomes:?}");
}

#[cfg(not(shuttle))]
fn run(interruptions: Option<usize>, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(interruptions);
    builder.check(model);
}

/// Runs as many random orders as the environment's `SHUTTLE_ITERATIONS` says. For a model with too many orders it runs
/// as many again in which threads have priorities: these find what takes a few interruptions at just the right places.
/// An order that fails is printed, so that it can be replayed.
#[cfg(shuttle)]
fn run(interruptions: Option<usize>, model: impl Fn() + Send + Sync + 'static) {
    use shuttle::scheduler::{PctScheduler, RandomScheduler};
    use shuttle::{Config, Runner};

    let iterations = std::env::var("SHUTTLE_ITERATIONS")
        .map_or(10_000, |iterations| iterations.parse().expect("SHUTTLE_ITERATIONS is a number"));
    let model = Arc::new(model);
    let mut config = Config::new();
    config.stack_size = 256 * 1024;
    let by_chance = Runner::new(RandomScheduler::new(iterations), config.clone());
    by_chance.run({
        let model = model.clone();
        move || model()
    });
    if let Some(interruptions) = interruptions {
        Runner::new(PctScheduler::new(interruptions, iterations), config).run(move || model());
    }
}
