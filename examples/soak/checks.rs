//! The checks, during the run and at its end.

use std::fs;
use std::time::Duration;

use timingwheel::{Stats, TimingWheel};
use timingwheel_examples::unless_too_busy;

use crate::load::Books;
use crate::{Settings, goes_on_firing, is_accounted_for, mib};

/// So many are said; the rest is probably more of the same.
const MOST_PROBLEMS: usize = 20;
/// How long a timer of a millisecond may take. Not a promise of the wheel's: a machine may be slow.
const FIRES_WITHIN: Duration = Duration::from_secs(10);
/// After this share of a run, though after five minutes at the latest, the process is warm.
const WARM_AFTER: f64 = 0.25;
const WARM_AFTER_AT_THE_LATEST: Duration = Duration::from_secs(300);
/// How much more memory than the most while it was getting warm the process may take after that, because the allocator
/// keeps what storms leave in pieces. A leak of one timer in a thousand is more than that within minutes.
const GROWTH: f64 = 0.25;
const GROWTH_AT_LEAST: u64 = 16 << 20;

/// The state of the checks.
pub(crate) struct Checks {
    pub(crate) number: u64,
    /// Of the last check.
    pub(crate) last: Stats,
    pub(crate) most_pending: usize,
    pub(crate) memory: Memory,
    warm_after: Duration,
    /// Promises that did not hold.
    pub(crate) problems: Vec<String>,
}

/// Resident memory in bytes, where the system tells it.
#[derive(Clone, Copy, Default)]
pub(crate) struct Memory {
    pub(crate) now: Option<u64>,
    /// The most until the process was warm.
    pub(crate) warm: Option<u64>,
    /// The most after that.
    pub(crate) most: Option<u64>,
}

/// Linux's figures for this process.
fn resident() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib << 10)
}

impl Checks {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            number: 0,
            last: Stats::default(),
            most_pending: 0,
            memory: Memory::default(),
            warm_after: settings.length().mul_f64(WARM_AFTER).min(WARM_AFTER_AT_THE_LATEST),
            problems: Vec::new(),
        }
    }

    fn expect(&mut self, holds: bool, otherwise: impl FnOnce() -> String) {
        if !holds && self.problems.len() < MOST_PROBLEMS {
            self.problems.push(otherwise());
        }
    }

    /// At full speed.
    pub(crate) async fn check(&mut self, elapsed: Duration, wheel: &TimingWheel, books: &Books) {
        self.check_counts(wheel, books);
        let goes_on = goes_on_firing(wheel, FIRES_WITHIN).await;
        if !goes_on {
            unless_too_busy(format!("after {elapsed:?} no timer fired for {FIRES_WITHIN:?}"));
        }
        self.check_memory(elapsed);
    }

    fn check_counts(&mut self, wheel: &TimingWheel, books: &Books) {
        let stats = wheel.stats();
        self.number += 1;
        self.last = stats.clone();
        self.most_pending = self.most_pending.max(stats.pending);
        self.expect(is_accounted_for(&stats), || format!("timers were lost or counted twice: {stats:?}"));
        let early = books.lateness.early.get();
        self.expect(early == 0, || format!("{early} timers were early"));
    }

    fn check_memory(&mut self, elapsed: Duration) {
        self.memory.now = resident();
        let Some(now) = self.memory.now else { return };
        if elapsed <= self.warm_after {
            self.memory.warm = self.memory.warm.max(Some(now));
            return;
        }
        self.memory.most = self.memory.most.max(Some(now));
        let Some(warm) = self.memory.warm else { return };
        #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let margin = GROWTH_AT_LEAST.max((warm as f64 * GROWTH) as u64);
        self.expect(now <= warm + margin, || {
            format!("the process takes {}, and took {} when it was warm", mib(now), mib(warm))
        });
    }

    /// When all tasks have ended: nothing is pending, and each kind of them did something.
    pub(crate) fn check_at_rest(&mut self, wheel: &TimingWheel, books: &Books) {
        self.check_counts(wheel, books);
        let pending = self.last.pending;
        self.expect(pending == 0, || format!("{pending} timers are left"));
        for (what, count) in books.counts() {
            if count == 0 {
                unless_too_busy(format!("{what}: none"));
            }
        }
    }
}
