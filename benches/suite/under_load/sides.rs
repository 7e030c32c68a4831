//! The sides of a comparison, each with a runtime of its own.

use std::time::Duration;

use timingwheel::{Stats, TimingWheel};
use tokio::runtime::{Builder, Runtime};

use super::rivals;
use super::timers::{Timers, TokioTime};
use crate::support::rounds;

/// A runtime, and the timers that tasks in it use.
pub(super) struct Side<T> {
    pub(super) timers: T,
    /// Last, so that it outlives its timers.
    pub(super) runtime: Runtime,
}

/// What a side is put under.
pub(super) trait Load {
    type Found;

    /// Returns how many timers fired too.
    fn run<T: Timers>(&self, side: &Side<T>) -> (Self::Found, u64);
}

pub(super) struct Sides {
    ours: Side<TimingWheel>,
    rivals: Vec<Side<TokioTime>>,
}

impl Side<TimingWheel> {
    pub(super) fn ours(runtime: Runtime, settings: timingwheel::Builder) -> Self {
        let wheel = runtime.block_on(async { settings.build() }).expect("settings within their limits");
        Self { timers: wheel, runtime }
    }
}

impl<T: Timers> Side<T> {
    /// Puts the side under `load`, and checks that the timers that fired were the wheel's, if there is one.
    fn run<L: Load>(&self, load: &L) -> L::Found {
        let before = self.timers.stats();
        let (found, fired) = load.run(self);
        assert!(fired > 0, "no timer fired");
        self.assert_armed(before, fired);
        found
    }

    /// Checks that the wheel, if there is one, saw as many timers as it should have. One in a hundred may be missing:
    /// a task that loses its core between making a timer and polling it may find it due.
    pub(super) fn assert_armed(&self, before: Option<Stats>, at_least: u64) {
        if let Some((after, before)) = self.timers.stats().zip(before) {
            let armed = after.armed - before.armed;
            assert!(armed * 100 >= at_least * 99, "only {armed} of {at_least} timers reached the wheel");
        }
    }
}

impl Sides {
    /// With a wheel of the default tick.
    pub(super) fn new(workers: usize) -> Self {
        Self::with(workers, TimingWheel::builder())
    }

    pub(super) fn with_tick(workers: usize, tick: Duration) -> Self {
        Self::with(workers, TimingWheel::builder().tick(tick))
    }

    fn with(workers: usize, settings: timingwheel::Builder) -> Self {
        let runtime = rivals::multi_thread(workers).build().expect("a runtime");
        let rivals = rivals::runtimes(workers).into_iter().map(|runtime| Side { timers: TokioTime, runtime });
        Self { ours: Side::ours(runtime, settings), rivals: rivals.collect() }
    }

    /// Runtimes of one thread.
    pub(super) fn current_thread() -> Self {
        let runtime = || Builder::new_current_thread().enable_all().build().expect("a runtime");
        let rival = Side { timers: TokioTime, runtime: runtime() };
        Self { ours: Side::ours(runtime(), TimingWheel::builder()), rivals: vec![rival] }
    }

    /// What each found, by round and in it by side, ours first.
    pub(super) fn rounds<L: Load>(&self, count: usize, load: &L) -> Vec<Vec<L::Found>> {
        let mut ours = || self.ours.run(load);
        let mut rivals: Vec<_> = self.rivals.iter().map(|rival| || rival.run(load)).collect();
        let mut sides: Vec<&mut dyn FnMut() -> L::Found> = vec![&mut ours];
        sides.extend(rivals.iter_mut().map(|rival| rival as &mut dyn FnMut() -> L::Found));
        rounds(count, &mut sides)
    }
}
