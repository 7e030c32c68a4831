//! All shards of a wheel, as the turner sees them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::task::Waker;

use super::budget::{BATCH, Budget};
use super::plan::Plan;
use super::wake_all::wake_all;
use crate::engine::shard::{Shard, ShardTurn};
use crate::wheel::{Nanos, Resolution};

/// The shards to be turned. This keeps no shard alive: the driver ends when nothing else holds one.
#[derive(Debug)]
pub(crate) struct DrivenShards {
    pub(super) all: Box<[Weak<Shard>]>,
    /// The number of the shard with which the next turn begins: the one after the shard in which a budget last ran out.
    first: AtomicUsize,
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

impl DrivenShards {
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
