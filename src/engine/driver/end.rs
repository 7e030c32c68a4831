//! The end of a wheel: how the driver learns that no timer is left, and what it does then, or when its runtime drops it.
//!
//! | the wheel ends | because |
//! |---|---|
//! | when its runtime is shut down | the runtime drops the driver's task |
//! | at `shutdown` | all shards have ended, so the driver's task is ready |
//! | after the last handle and the last timer | the driver counts them; `shard::last_holder` says how |

use std::time::Duration;

use super::DriverTask;
use super::budget::BATCH;
use super::driven_shards::DrivenShards;
use super::wake_all::wake_all;
use crate::engine::shard::only_threads_hold;
use crate::wheel::Progress;

/// How long after the last handle went the driver checks again whether any timer is left, and the longest time from one
/// such check to the next; see `shard::last_holder`.
const FIRST_RECHECK: Duration = Duration::from_secs(1);
const LONGEST_RECHECK: Duration = Duration::from_secs(60);

impl DriverTask {
    /// Once no handle is left: whether no timer is either. Plans the next check.
    pub(super) fn is_unused(&mut self) -> bool {
        let now = self.turner.clock.now();
        let (at, pause) = self.recheck.get_or_insert((now.after(FIRST_RECHECK), FIRST_RECHECK));
        if *at <= now {
            *pause = (*pause * 2).min(LONGEST_RECHECK);
            *at = now.after(*pause);
        }
        self.turner.alarm.set_recheck(*at);
        self.turner.shards.are_unused()
    }
}

impl Drop for DriverTask {
    fn drop(&mut self) {
        self.turner.shards.end();
        self.turner.alarm.end();
        self.turner.alarm.counters().ended();
    }
}

impl DrivenShards {
    /// Once no handle is left: whether no timer is either.
    pub(super) fn are_unused(&self) -> bool {
        self.all.iter().all(only_threads_hold)
    }

    /// Whether all shards have ended, so that nothing will be due any more.
    pub(super) fn have_ended(&self) -> bool {
        self.alive().all(|shard| shard.has_ended())
    }

    /// Ends every shard, and wakes the tasks of all pending timers. Returns how many timers these were.
    pub(crate) fn end(&self) -> usize {
        let mut pending = Vec::new();
        let mut count = 0;
        for shard in self.alive() {
            loop {
                let (ended, progress) = shard.end(BATCH, &mut pending);
                count += ended;
                wake_all(&mut pending, shard.counters());
                if progress == Progress::Done {
                    break;
                }
            }
        }
        count
    }
}
