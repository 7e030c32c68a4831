//! The shards of a wheel, to those who turn it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::task::Waker;
use std::time::{Duration, Instant};

use super::wake;
use crate::engine::shard::{Shard, Turn, only_threads_hold};
use crate::platform::clock::stopwatch;
use crate::wheel::{Nanos, Progress, Resolution};

/// Entries handed out or moved under one hold of a shard's lock. It keeps a hold in the order of 10 µs.
const BATCH: usize = 256;

/// What there is to turn. It keeps no shard alive: the driver ends when nobody else holds one.
#[derive(Debug)]
pub(crate) struct Shards {
    all: Box<[Weak<Shard>]>,
    /// With which the next turn begins: one after that with which the last one did not come to an end.
    first: AtomicUsize,
}

/// What a turn may do before others run.
#[derive(Debug)]
pub(super) struct Budget {
    batches: usize,
    /// Not while the clock is paused, when what happens must not depend on the time that it takes.
    until: Option<Instant>,
    has_begun: bool,
}

impl Budget {
    const BATCHES: usize = 16;
    const TIME: Duration = Duration::from_millis(1);

    pub(super) fn of_a_turn(paused: bool) -> Self {
        let until = (!paused).then(|| stopwatch() + Self::TIME);
        Self { batches: Self::BATCHES, until, has_begun: false }
    }

    /// Takes one batch. There is at least one.
    fn take(&mut self) -> bool {
        let has_time = self.until.is_none_or(|until| !self.has_begun || stopwatch() < until);
        self.has_begun = true;
        let has_batch = self.batches > 0;
        self.batches = self.batches.saturating_sub(1);
        has_batch && has_time
    }
}

/// What a turn left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turned {
    /// More is due.
    More,
    /// Nothing is due before the plan.
    Until(Plan),
    /// All shards have ended.
    Ended,
}

/// When to turn next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// When the first shard has something to do.
    pub(super) first: Nanos,
    /// The last of the shards' next expirations that lie in one tick with the first: so there is one turn for a tick.
    pub(super) at: Nanos,
}

impl Plan {
    const NOTHING: Self = Self { first: Nanos::MAX, at: Nanos::MAX };

    /// The plan if one more shard has something to do at `next`.
    fn with(self, next: Nanos, resolution: Resolution) -> Self {
        let first = self.first.min(next);
        let end = resolution.end_of_tick(first);
        // A shard without a time is no reason to wait for the end of time, whose tick may be long.
        let in_tick = |time: Nanos| (time <= end && time < Nanos::MAX).then_some(time);
        let at = in_tick(self.at).max(in_tick(next)).unwrap_or(first);
        Self { first, at }
    }
}

impl Shards {
    pub(crate) fn new(shards: &[Arc<Shard>]) -> Self {
        Self { all: shards.iter().map(Arc::downgrade).collect(), first: AtomicUsize::new(0) }
    }

    fn alive(&self) -> impl Iterator<Item = Arc<Shard>> {
        self.all.iter().filter_map(Weak::upgrade)
    }

    /// Hands out what is due, as far as the budget reaches, and wakes it. It was to be done `due_since` then.
    pub(super) fn turn(
        &self,
        now: Nanos,
        due_since: Nanos,
        resolution: Resolution,
        budget: &mut Budget,
        expired: &mut Vec<Waker>,
    ) -> Turned {
        let mut plan = Plan::NOTHING;
        // Leftovers do not wait for the end of a tick, which may be long.
        let mut clear_by = Nanos::MAX;
        let mut all_ended = true;
        // Relaxed: two turns at a time may begin with the same.
        let first = self.first.load(Ordering::Relaxed);
        for n in 0..self.all.len() {
            let number = (first + n) % self.all.len();
            let Some(shard) = self.all[number].upgrade() else { continue };
            loop {
                if shard.next_turn() <= now && !budget.take() {
                    self.first.store(number + 1, Ordering::Relaxed);
                    return Turned::More;
                }
                let turn = shard.turn(now, due_since, BATCH, expired);
                wake::all(expired, shard.notes());
                match turn {
                    Turn::More => {}
                    Turn::Until(_) => {
                        plan = plan.with(shard.next_expiration(), resolution);
                        clear_by = clear_by.min(shard.clear_by());
                        all_ended = false;
                        break;
                    }
                    Turn::Ended => break,
                }
            }
        }
        if all_ended {
            return Turned::Ended;
        }
        Turned::Until(Plan { first: plan.first.min(clear_by), at: plan.at.min(clear_by) })
    }

    /// Whether a shard has something to do before `time`.
    pub(super) fn any_before(&self, time: Nanos) -> bool {
        self.alive().any(|shard| shard.next_turn() < time)
    }

    /// Whether no timer is left, once no handle is.
    pub(super) fn are_unused(&self) -> bool {
        self.all.iter().all(only_threads_hold)
    }

    /// Whether nothing will be due any more.
    pub(super) fn have_ended(&self) -> bool {
        self.alive().all(|shard| shard.has_ended())
    }

    /// Ends every shard and wakes what is pending. Returns how much that was.
    pub(crate) fn end(&self) -> usize {
        let mut pending = Vec::new();
        let mut count = 0;
        for shard in self.alive() {
            loop {
                let (ended, progress) = shard.end(BATCH, &mut pending);
                count += ended;
                wake::all(&mut pending, shard.notes());
                if progress == Progress::Done {
                    break;
                }
            }
        }
        count
    }
}
