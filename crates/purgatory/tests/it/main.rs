//! `Purgatory`: operations that wait for a condition under keys. On tokio's paused clock, but for what threads race
//! for. Each test makes its wheel by a helper from here, which limits the test's time.

#[path = "../../../jobs/tests/it/acts.rs"]
mod acts;
mod checks;
mod ends;
#[path = "../../../jobs/tests/it/limit.rs"]
mod limit;
mod locks;
mod model;
mod operations;
mod panics;
mod racing;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Waker};

use timingwheel::TimingWheel;
use timingwheel_purgatory::{Purgatory, Watch};

use crate::acts::{DAY, Key, Use, keys_that, ms, when_dropped, when_woken};
use crate::limit::limit_this_test;

/// What conditions look at: one of its kind holds once the level is as high as it wants. Counts how often they are
/// tried.
#[derive(Clone, Debug, Default)]
struct Level(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    level: AtomicUsize,
    tries: AtomicUsize,
}

impl Level {
    fn set(&self, level: usize) {
        self.0.level.store(level, Ordering::Relaxed);
    }

    /// Holds, with the level, when that is at least `wanted`.
    fn at_least(&self, wanted: usize) -> impl FnMut() -> Option<usize> + Send + use<> {
        let level = self.clone();
        move || {
            level.0.tries.fetch_add(1, Ordering::Relaxed);
            Some(level.0.level.load(Ordering::Relaxed)).filter(|&level| level >= wanted)
        }
    }

    /// How often conditions were tried since the last time.
    fn tries(&self) -> usize {
        self.0.tries.swap(0, Ordering::Relaxed)
    }

    /// How many conditions there are.
    fn conditions(&self) -> usize {
        Arc::strong_count(&self.0) - 1
    }
}

fn never() -> Option<()> {
    None
}

fn wheel() -> TimingWheel {
    limit_this_test();
    TimingWheel::new()
}

/// With a place for one timer.
fn bounded() -> TimingWheel {
    limit_this_test();
    TimingWheel::builder().max_pending(1).build().unwrap()
}

fn purgatory<K>() -> Purgatory<K> {
    Purgatory::new(&wheel())
}

/// The numbers of places taken and of operations pending.
fn counts<K>(purgatory: &Purgatory<K>) -> (usize, usize) {
    (purgatory.watched(), purgatory.delayed())
}

/// Polls it by this waker, and tells whether it was ready.
fn poll_by<T>(watch: &mut Watch<T>, waker: &Waker) -> bool {
    Pin::new(watch).poll(&mut Context::from_waker(waker)).is_ready()
}
