//! Hints between instances, by LISTEN and NOTIFY: of timers that are due soon, and of shards that have a new owner.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::Inner;
use super::connections::{Listening, Sends};
use super::membership::{GIVE_BACK, SOON_MS};
use crate::id::{TimerId, timestamp};
use crate::store::{Hint, Near, Owner};

/// How long hints are gathered before they are told.
const GATHER: Duration = Duration::from_millis(20);

/// How long after any hint the instance scans for all timers that may be due soon. Some commits leave their hint to another one,
/// which may name another time and another shard, and may come a moment earlier.
const ONCE_MORE: Duration = Duration::from_secs(1);

/// That scan begins this long before now.
const GRACE_MS: i64 = 60_000;

/// How long after a failure a connection is made again, at first and at the most.
const RETRY: Duration = Duration::from_secs(1);
const RETRY_MOST: Duration = Duration::from_secs(30);

/// How long a connection that listens is silent before it is asked whether it lives, and how long the answer may take. Otherwise
/// one that is half open would never hear anything again.
const PING: Duration = Duration::from_secs(5);
const PING_LIMIT: Duration = Duration::from_secs(3);

/// The next note. `None` if the connection is gone.
async fn next_note((client, heard): &mut Listening) -> Option<String> {
    loop {
        match timeout(PING, heard.recv()).await {
            Ok(told) => return told,
            Err(_) => timeout(PING_LIMIT, client.batch_execute("")).await.ok()?.ok()?,
        }
    }
}

/// The connections that listen, one for each owner, and notes to be sent.
#[derive(Default)]
pub(super) struct Hints {
    heard: tokio::sync::Mutex<HashMap<u64, Hears>>,
    notes: Mutex<Notes>,
    /// Held while notes are sent.
    sends: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Hears {
    listening: Option<Listening>,
    failures: u32,
    /// When to scan once more. Later hints change neither the time nor the range.
    once_more: Option<Instant>,
    /// Cancels of running timers that have not been passed on.
    cancelled: Vec<TimerId>,
}

/// Notes to be sent: for each shard the first and the last due time.
#[derive(Default)]
struct Notes {
    of: BTreeMap<u64, (i64, i64)>,
    is_busy: bool,
}

/// The first due time and the number of a timer.
fn cancelled(text: &str) -> Option<TimerId> {
    let (first, number) = text.split_once(' ')?;
    Some(TimerId { due_ms: first.parse().ok()?, unique: number.parse::<i64>().ok()?.cast_unsigned() })
}

impl Inner {
    pub(super) async fn next_hint(&self, owner: Owner) -> Hint {
        if !self.options.listens {
            return std::future::pending().await;
        }
        let mut hears = self.hints.heard.lock().await.remove(&owner.epoch).unwrap_or_default();
        let hint = loop {
            if let Some(hint) = self.hear(owner, &mut hears).await {
                break hint;
            }
        };
        self.hints.heard.lock().await.insert(owner.epoch, hears);
        hint
    }

    /// Its connection is closed.
    pub(super) async fn hears_no_more(&self, owner: Owner) {
        self.hints.heard.lock().await.remove(&owner.epoch);
    }

    async fn hear(&self, owner: Owner, hears: &mut Hears) -> Option<Hint> {
        if let Some(id) = hears.cancelled.pop() {
            return Some(Hint::Cancelled(id));
        }
        let Some(listening) = &mut hears.listening else {
            if hears.failures > 0 {
                let wait = RETRY.saturating_mul(1 << hears.failures.min(5)).min(RETRY_MOST);
                sleep(wait.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
            }
            match self.connections.listen().await {
                Ok(listening) => {
                    hears.listening = Some(listening);
                    hears.failures = 0;
                    // Hints may have been missed meanwhile, so it scans for everything.
                    return Some(Hint::Shares);
                }
                Err(_) => {
                    hears.failures += 1;
                    return None;
                }
            }
        };
        let first = match hears.once_more {
            None => next_note(listening).await,
            Some(at) => {
                let left = at.saturating_duration_since(Instant::now());
                let told = if left.is_zero() { None } else { timeout(left, next_note(listening)).await.ok() };
                let Some(told) = told else {
                    hears.once_more = None;
                    let now = self.owned.now_ms(owner.epoch);
                    return Some(Hint::Saved(timestamp(now - GRACE_MS), timestamp(now + SOON_MS)));
                };
                told
            }
        };
        let Some(first) = first else {
            hears.listening = None;
            hears.failures = 1;
            return None;
        };
        sleep(GATHER).await;
        let mut range: Option<(i64, i64)> = None;
        let mut told = Some(first);
        let mut are_shared = false;
        while let Some(text) = told {
            if let Some(id) = text.strip_prefix("cancelled ") {
                hears.cancelled.extend(cancelled(id));
                told = listening.1.try_recv().ok();
                continue;
            }
            match text
                .split_once(' ')
                .and_then(|(shard, due)| Some((shard.parse().ok()?, due.parse::<i64>().ok()?)))
            {
                Some((shard, due)) => {
                    hears.once_more.get_or_insert_with(|| Instant::now() + ONCE_MORE);
                    if self.owned.has(owner.epoch, shard) {
                        let (from, to) = range.unwrap_or((due, due));
                        range = Some((from.min(due), to.max(due)));
                    }
                }
                None => are_shared = true,
            }
            told = listening.1.try_recv().ok();
        }
        if are_shared {
            return Some(Hint::Shares);
        }
        let (from, to) = range?;
        Some(Hint::Saved(timestamp(from), timestamp(to)))
    }

    /// A timer is stored that may be another instance's. Its owner is told a moment after the commit. Within the commit, the
    /// notification would hold a lock of the whole server.
    pub(super) fn note(self: &Arc<Self>, near: Near) {
        let due_in = near.due_ms.saturating_sub(self.owned.any_now_ms());
        let shard = self.shards.of(near.id.unique);
        if due_in < SOON_MS && !self.owned.is_of_the_only_one(shard) {
            self.tell(shard, near.due_ms);
        }
    }

    pub(super) fn tell(self: &Arc<Self>, shard: u64, due_ms: i64) {
        let mut notes = self.hints.notes.lock().unwrap_or_else(PoisonError::into_inner);
        let (from, to) = notes.of.entry(shard).or_insert((due_ms, due_ms));
        (*from, *to) = (due_ms.min(*from), due_ms.max(*to));
        if !std::mem::replace(&mut notes.is_busy, true) {
            let inner = Arc::clone(self);
            tokio::spawn(async move {
                while {
                    sleep(GATHER).await;
                    inner.send_notes().await
                } {}
            });
        }
    }

    /// The call may have been on its way while the instance left, which has sent its notes before. The program may end with the call.
    pub(super) async fn send_what_came_late(&self) {
        if self.owned.is_empty() {
            // A scan finds the rest.
            let _ = timeout(GIVE_BACK, self.send_notes()).await;
        }
    }

    /// Sends all notes. Returns whether there were any.
    pub(super) async fn send_notes(&self) -> bool {
        let _sends = self.hints.sends.lock().await;
        let notes: Vec<String> = {
            let mut notes = self.hints.notes.lock().unwrap_or_else(PoisonError::into_inner);
            if notes.of.is_empty() {
                notes.is_busy = false;
                return false;
            }
            let taken = std::mem::take(&mut notes.of);
            let notes = |(shard, (from, to))| [format!("{shard} {from}"), format!("{shard} {to}")];
            taken.into_iter().flat_map(notes).collect()
        };
        let statement = "select pg_notify('timingwheel', note) from (select distinct unnest($1) as note) n";
        // If this fails, a scan finds the timers.
        drop(self.connections.for_runner().ask(statement, &[&notes]).await);
        true
    }
}
