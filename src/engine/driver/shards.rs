//! All shards of a wheel, as the turner sees them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::task::Waker;
use std::time::{Duration, Instant};

use super::wake_all::wake_all;
use crate::engine::shard::{Shard, ShardTurn};
use crate::platform::clock::stopwatch;
use crate::wheel::{Nanos, Resolution};

/// How many entries are handed out or moved under one hold of a shard's lock. So a hold takes some 10 µs.
pub(super) const BATCH: usize = 256;

/// The shards to be turned. This keeps no shard alive: the driver ends when nothing else holds one.
#[derive(Debug)]
pub(crate) struct Shards {
    pub(super) all: Box<[Weak<Shard>]>,
    /// The number of the shard with which the next turn begins: the one after the shard in which a budget last ran out.
    first: AtomicUsize,
}

/// How much a turn may do before other tasks run, and what it has done.
#[derive(Debug)]
pub(super) struct Budget {
    batches: usize,
    /// `None` while the clock is paused: then nothing may depend on how long the turn takes.
    until: Option<Instant>,
    has_begun: bool,
    /// How many timers the turn has handed out.
    fired: usize,
}

impl Budget {
    const BATCHES: usize = 16;
    const TIME: Duration = Duration::from_millis(1);

    pub(super) fn of_a_turn(paused: bool) -> Self {
        let until = (!paused).then(|| stopwatch() + Self::TIME);
        Self { batches: Self::BATCHES, until, has_begun: false, fired: 0 }
    }

    pub(super) const fn fired(&self) -> usize {
        self.fired
    }

    /// Takes one batch, and returns whether the turn may do it. The first one it may always do.
    fn take_batch(&mut self) -> bool {
        let has_time = self.until.is_none_or(|until| !self.has_begun || stopwatch() < until);
        self.has_begun = true;
        let has_batch = self.batches > 0;
        self.batches = self.batches.saturating_sub(1);
        has_batch && has_time
    }
}

/// What a turn left to do in all shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WheelTurn {
    /// More is due than the budget allowed.
    More,
    /// Nothing is due before this plan's time.
    Until(Plan),
    /// All shards have ended.
    Ended,
}

/// When to turn next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// When the first shard has something to do.
    pub(super) first: Nanos,
    /// The last of the shards' next expirations that lie in the same tick as `first`: so there is one turn for a tick.
    pub(super) at: Nanos,
}

impl Plan {
    const NOTHING: Self = Self { first: Nanos::MAX, at: Nanos::MAX };

    /// The plan with one more shard, which has something to do at `next`.
    fn with(self, next: Nanos, resolution: Resolution) -> Self {
        let first = self.first.min(next);
        let end = resolution.end_of_tick(first);
        // `MAX` means that a shard has nothing to do. The last tick may be long, so other times may lie in one tick
        // with it.
        let in_tick = |time: Nanos| (time <= end && time < Nanos::MAX).then_some(time);
        let at = in_tick(self.at).max(in_tick(next)).unwrap_or(first);
        Self { first, at }
    }
}

impl Shards {
    pub(crate) fn new(shards: &[Arc<Shard>]) -> Self {
        Self { all: shards.iter().map(Arc::downgrade).collect(), first: AtomicUsize::new(0) }
    }

    pub(super) fn alive(&self) -> impl Iterator<Item = Arc<Shard>> {
        self.all.iter().filter_map(Weak::upgrade)
    }

    /// Hands out the timers that are due, as far as the budget reaches, and wakes their tasks. The turn is due since
    /// `due_since`.
    pub(super) fn turn(
        &self,
        now: Nanos,
        due_since: Nanos,
        resolution: Resolution,
        budget: &mut Budget,
        expired: &mut Vec<Waker>,
    ) -> WheelTurn {
        let mut plan = Plan::NOTHING;
        // Leftovers do not wait for the end of their tick, because a tick may be long.
        let mut clear_by = Nanos::MAX;
        let mut all_ended = true;
        // Relaxed: two turns at the same time may begin with the same shard.
        let first = self.first.load(Ordering::Relaxed);
        for n in 0..self.all.len() {
            let number = (first + n) % self.all.len();
            let Some(shard) = self.all[number].upgrade() else { continue };
            loop {
                if shard.next_turn() <= now {
                    let may_go_on = budget.take_batch();
                    if !may_go_on {
                        self.first.store(number + 1, Ordering::Relaxed);
                        return WheelTurn::More;
                    }
                }
                let turn = shard.turn(now, due_since, BATCH, expired);
                budget.fired += expired.len();
                wake_all(expired, shard.counters());
                match turn {
                    ShardTurn::More => {}
                    ShardTurn::Until(_) => {
                        plan = plan.with(shard.next_expiration(), resolution);
                        clear_by = clear_by.min(shard.clear_by());
                        all_ended = false;
                        break;
                    }
                    ShardTurn::Ended => break,
                }
            }
        }
        if all_ended {
            return WheelTurn::Ended;
        }
        WheelTurn::Until(Plan { first: plan.first.min(clear_by), at: plan.at.min(clear_by) })
    }

    /// Whether any shard has something to do before `time`.
    pub(super) fn any_before(&self, time: Nanos) -> bool {
        self.alive().any(|shard| shard.next_turn() < time)
    }
}
