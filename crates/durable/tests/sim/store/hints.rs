//! Hints: what an instance tells others of timers that it saves, and what it hears of theirs.

use std::time::Duration;

use timingwheel_durable::store::{Hint, Near, Owner};
use tokio::time::{Instant, sleep, timeout_at};

use super::{Client, GRACE_MS, Inner, SOON_MS, timestamp};
use crate::db::{Db, shard};
use crate::lack::Lack;
use crate::network::ms;

/// How long hints are gathered, and when an instance scans once more after any hint.
const GATHER: Duration = Duration::from_millis(20);
const ONCE_MORE: Duration = Duration::from_secs(1);
/// After how many seconds a connection is made again that listens, at the most.
const RETRY_MOST_S: i64 = 30;

impl Client {
    pub(super) fn note(&self, near: Near) {
        let due_ms = near.due().as_millisecond();
        let shard = shard(near.id().unique());
        let epoch = self.state().owned.keys().next_back().copied().unwrap_or(0);
        let is_of_database = self.0.wire.world().has(Lack::HintsByDatabase);
        let now_ms = if is_of_database { self.now_ms(epoch) } else { self.0.wire.wall_ms() };
        let state = self.state();
        let is_of_the_only_one = state.owned.len() == 1
            && state.owned.values().all(|own| own.parts.shards.contains(&shard) && !own.parts.is_helped);
        drop(state);
        if due_ms - now_ms < SOON_MS && !is_of_the_only_one {
            self.notify(shard, due_ms);
        }
    }

    pub(super) fn notify(&self, shard: u64, due_ms: i64) {
        let mut state = self.state();
        let (from, to) = state.notes.entry(shard).or_insert((due_ms, due_ms));
        (*from, *to) = (due_ms.min(*from), due_ms.max(*to));
        if !std::mem::replace(&mut state.is_busy, true) {
            let client = self.clone();
            tokio::spawn(async move {
                while {
                    sleep(GATHER).await;
                    client.send_notes().await
                } {}
            });
        }
    }

    /// Returns whether there were any.
    pub(super) async fn send_notes(&self) -> bool {
        let notes = {
            let mut state = self.state();
            let notes = std::mem::take(&mut state.notes);
            state.is_busy = !notes.is_empty();
            notes
        };
        if notes.is_empty() {
            return false;
        }
        let told = move |db: &mut Db| {
            let both =
                |(shard, (from, to)): (&u64, &(i64, i64))| [Some((*shard, *from)), Some((*shard, *to))];
            db.notes.extend(notes.iter().flat_map(both));
            Some(Ok(()))
        };
        let _ = self.write(told).await;
        true
    }

    pub(super) async fn hear(&self, owner: Owner) -> Option<Hint> {
        let Inner { wire, hears, .. } = &*self.0;
        if !self.state().is_listening {
            let wait = 500 * (1 << self.state().failures.min(6)).min(RETRY_MOST_S);
            sleep(ms(wait + wire.random(wait))).await;
            let is_made = self.read(|_| ()).await.is_ok();
            let mut state = self.state();
            (state.is_listening, state.failures) = (is_made, if is_made { 0 } else { state.failures + 1 });
            return is_made.then_some(Hint::Shares);
        }
        let once_more = self.state().once_more;
        let is_empty = self.state().heard.is_empty();
        match once_more {
            Some(at) if is_empty => {
                let is_time = timeout_at(at, hears.notified()).await.is_err();
                if is_time {
                    self.state().once_more = None;
                    let now = self.now_ms(owner.epoch);
                    return Some(Hint::Saved(timestamp(now - GRACE_MS), timestamp(now + SOON_MS)));
                }
            }
            None if is_empty => hears.notified().await,
            _ => {}
        }
        if self.state().heard.is_empty() {
            return None;
        }
        sleep(GATHER).await;
        wire.thawed().await;
        let mut state = self.state();
        let heard = std::mem::take(&mut state.heard);
        let mine = state.owned.get(&owner.epoch).map(|own| own.parts.clone()).unwrap_or_default();
        let mut range: Option<(i64, i64)> = None;
        let mut are_shared = false;
        for note in heard {
            let Some((shard, due)) = note else {
                are_shared = true;
                continue;
            };
            state.once_more.get_or_insert_with(|| Instant::now() + ONCE_MORE);
            if mine.has(shard) {
                let (from, to) = range.unwrap_or((due, due));
                range = Some((from.min(due), to.max(due)));
            }
        }
        if are_shared {
            return Some(Hint::Shares);
        }
        range.map(|(from, to)| Hint::Saved(timestamp(from), timestamp(to)))
    }
}
