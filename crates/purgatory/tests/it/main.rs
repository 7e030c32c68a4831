//! `Purgatory`: operations that wait for a condition under keys. On tokio's paused clock, but for what threads race
//! for. Each test makes its wheel by a helper from here, which limits the test's time.

mod checks;
mod ends;
#[path = "../../../jobs/tests/it/limit.rs"]
mod limit;
mod locks;
mod model;
mod operations;
mod panics;
mod racing;

use std::hash::{Hash, Hasher};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use timingwheel::TimingWheel;
use timingwheel_purgatory::{Purgatory, Watch};

use crate::limit::limit_this_test;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

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

/// What is done with a key, or with a condition that has one.
#[derive(Clone, Copy, PartialEq)]
enum Use {
    Hash,
    Eq,
    Drop,
    Try,
}

/// Acts whatever is done with it. All have the same hash.
struct Key(u8, Arc<dyn Fn(u8, Use) + Send + Sync>);

/// Keys that act so, by their numbers.
fn keys_that(act: impl Fn(u8, Use) + Send + Sync + 'static) -> impl Fn(u8) -> Key + Clone {
    let act = Arc::new(act);
    move |number| Key(number, act.clone())
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        (self.1)(self.0, Use::Eq);
        self.0 == other.0
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, _: &mut H) {
        (self.1)(self.0, Use::Hash);
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        (self.1)(self.0, Use::Drop);
    }
}

type Act = Box<dyn Fn() + Send + Sync>;

/// Acts when it is woken, and when it is dropped.
struct Acts(Act, Act);

impl Wake for Acts {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}

impl Drop for Acts {
    fn drop(&mut self) {
        (self.1)();
    }
}

fn when_woken(act: impl Fn() + Send + Sync + 'static) -> Waker {
    Arc::new(Acts(Box::new(act), Box::new(|| ()))).into()
}

fn when_dropped(act: impl Fn() + Send + Sync + 'static) -> Waker {
    Arc::new(Acts(Box::new(|| ()), Box::new(act))).into()
}

/// Polls it by this waker, and tells whether it was ready.
fn poll_by<T>(watch: &mut Watch<T>, waker: &Waker) -> bool {
    Pin::new(watch).poll(&mut Context::from_waker(waker)).is_ready()
}
