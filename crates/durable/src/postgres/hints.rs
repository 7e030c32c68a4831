//! Hints between instances, by LISTEN and NOTIFY: of timers that are due soon, and of shards that have a new owner.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::Inner;
use super::connections::{Listening, Sends};
use super::convert::id;
use super::membership::{GIVE_BACK, SOON_MS};
use crate::id::timestamp;
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
    /// For each shard the first and the last due time.
    notes: Mutex<BTreeMap<u64, (i64, i64)>>,
    /// Held while notes are sent.
    sends: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Hears {
    listening: Option<Listening>,
    failures: u32,
    /// When to scan once more. Later hints change neither the time nor the range.
    once_more: Option<Instant>,
    /// Hints that have not been passed on.
    ready: Vec<Hint>,
}

impl Inner {
    pub(super) async fn next_hint(&self, owner: Owner) -> Hint {
        if !self.options.listens {
            return std::future::pending().await;
        }
        let mut hears = self.hints.heard.lock().await.remove(&owner.epoch).unwrap_or_default();
        let hint = loop {
            if let Some(hint) = hears.ready.pop() {
                break hint;
            }
            self.hear(owner, &mut hears).await;
        };
        self.hints.heard.lock().await.insert(owner.epoch, hears);
        hint
    }

    /// Its connection is closed.
    pub(super) async fn hears_no_more(&self, owner: Owner) {
        self.hints.heard.lock().await.remove(&owner.epoch);
    }

    async fn hear(&self, owner: Owner, hears: &mut Hears) {
        let Some(listening) = &mut hears.listening else {
            if hears.failures > 0 {
                let wait = RETRY.saturating_mul(1 << hears.failures.min(5)).min(RETRY_MOST);
                sleep(wait.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
            }
            match self.connections.listen().await {
                Ok(listening) => {
                    (hears.listening, hears.failures) = (Some(listening), 0);
                    // Hints may have been missed meanwhile, so it scans for everything.
                    hears.ready.push(Hint::Shares);
                }
                Err(_) => hears.failures += 1,
            }
            return;
        };
        let told = match hears.once_more.map(|at| at.saturating_duration_since(Instant::now())) {
            Some(Duration::ZERO) => None,
            left => timeout(left.unwrap_or(Duration::MAX), next_note(listening)).await.ok(),
        };
        let Some(told) = told else {
            hears.once_more = None;
            let now = self.owned.now_ms();
            hears.ready.push(Hint::Saved(timestamp(now - GRACE_MS), timestamp(now + SOON_MS)));
            return;
        };
        let Some(first) = told else {
            (hears.listening, hears.failures) = (None, 1);
            return;
        };
        sleep(GATHER).await;
        let (mut range, mut are_shared) = (None::<(i64, i64)>, false);
        for text in std::iter::once(first).chain(std::iter::from_fn(|| listening.1.try_recv().ok())) {
            let mut numbers = text.split(' ').map(str::parse::<i64>);
            match (numbers.next(), numbers.next(), numbers.next()) {
                (Some(Ok(shard)), Some(Ok(due)), None) => {
                    hears.once_more.get_or_insert_with(|| Instant::now() + ONCE_MORE);
                    if self.owned.has(owner.epoch, shard.unsigned_abs()) {
                        let (from, to) = range.unwrap_or((due, due));
                        range = Some((from.min(due), to.max(due)));
                    }
                }
                // "cancelled", and the timer.
                (_, Some(Ok(first)), Some(Ok(number))) => {
                    hears.ready.push(Hint::Cancelled(id(first, number)));
                }
                // "shares".
                _ => are_shared = true,
            }
        }
        if are_shared {
            hears.ready.push(Hint::Shares);
        } else if let Some((from, to)) = range {
            hears.ready.push(Hint::Saved(timestamp(from), timestamp(to)));
        }
    }

    /// A timer is stored that may be another instance's. Its owner is told a moment after the commit. Within the commit, the
    /// notification would hold a lock of the whole server.
    pub(super) fn note(self: &Arc<Self>, near: Near) {
        let due_in = near.due_ms.saturating_sub(self.owned.now_ms());
        let shard = self.shards.of(near.id.unique);
        if due_in < SOON_MS && !self.owned.is_of_the_only_one(shard) {
            self.tell(shard, near.due_ms);
        }
    }

    pub(super) fn tell(self: &Arc<Self>, shard: u64, due_ms: i64) {
        let mut notes = self.hints.notes.lock().unwrap_or_else(PoisonError::into_inner);
        if notes.is_empty() {
            let inner = Arc::clone(self);
            tokio::spawn(async move {
                sleep(GATHER).await;
                inner.send_notes().await;
            });
        }
        let (from, to) = notes.entry(shard).or_insert((due_ms, due_ms));
        (*from, *to) = (due_ms.min(*from), due_ms.max(*to));
    }

    /// The call may have been on its way while the instance left, which has sent its notes before. The program may end with the call.
    pub(super) async fn send_what_came_late(&self) {
        if self.owned.is_empty() {
            // A scan finds the rest.
            let _ = timeout(GIVE_BACK, self.send_notes()).await;
        }
    }

    /// Sends all notes.
    pub(super) async fn send_notes(&self) {
        let _sends = self.hints.sends.lock().await;
        let taken = std::mem::take(&mut *self.hints.notes.lock().unwrap_or_else(PoisonError::into_inner));
        if taken.is_empty() {
            return;
        }
        let notes =
            taken.into_iter().flat_map(|(shard, (from, to))| [from, to].map(|due| format!("{shard} {due}")));
        let notes: Vec<String> = notes.collect();
        let statement = "select pg_notify('timingwheel', note) from (select distinct unnest($1) as note) n";
        // If this fails, a scan finds the timers.
        drop(self.connections.for_runner().ask(statement, &[&notes]).await);
    }
}
