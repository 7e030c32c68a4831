//! One history of a world: what the database committed, what handlers and users were told, and what went wrong.

use std::collections::BTreeMap;
use std::fmt::Write;

use timingwheel_durable::TimerId;

/// A number that names a user's order: the payload's field `n`.
pub(crate) fn number_in(payload: &[u8]) -> u32 {
    let text = String::from_utf8_lossy(payload);
    let digits = text.split_once("\"n\":").map_or("", |(_, rest)| rest);
    digits.split(|c: char| !c.is_ascii_digit()).next().and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// The kind of an order, and whether old programs cannot read it.
pub(crate) fn needs(payload: &[u8]) -> (u8, bool) {
    let text = String::from_utf8_lossy(payload);
    let kind = text.split_once("\"kind\":").and_then(|(_, rest)| rest.bytes().next()).unwrap_or(b'0');
    (kind - b'0', text.contains("\"shape\":\"new\""))
}

#[derive(Clone, Debug)]
#[allow(dead_code, reason = "all of it is printed")]
pub(crate) enum Event {
    // Committed by the database.
    Joined { inst: usize, epoch: u64 },
    // It has the answer to its join.
    Knows { epoch: u64 },
    Gone { epoch: u64, why: &'static str },
    Saved { inst: usize, id: TimerId, n: u32, key: Option<String>, needs: (u8, bool), every_ms: Option<i64> },
    Updated { id: TimerId, n: u32, needs: (u8, bool), every_ms: Option<i64> },
    // A statement waited for a lock until long after its caller had given it up, and was carried out.
    Outlived { inst: usize },
    Moved { id: TimerId, due_ms: i64 },
    // Cancelled or replaced while it runs: nothing follows.
    Ending { id: TimerId },
    Dropped { id: TimerId, why: &'static str },
    // A run of a series has another name then.
    Retried { id: TimerId, name: TimerId, due_ms: i64 },
    Begun { inst: usize, epoch: u64, id: TimerId, attempt: u32 },
    Settled(Settled),
    // Or resumed.
    Paused { kind: String, is_paused: bool },
    // The state that a later loss goes back to.
    Snapshot,
    // All that was committed after the snapshot of that time is lost.
    Lost { since: i64 },
    // Which owner has which shard from here on.
    Shares { owners: BTreeMap<u64, u64> },
    // The database's clock was set.
    DbClockSet,
    // Within instances.
    Up { inst: usize, kinds: Vec<u8>, is_new: bool, has_zones: bool },
    Down { inst: usize, why: &'static str },
    Frozen { inst: usize, until: i64 },
    Called { inst: usize, epoch: u64, id: TimerId, attempt: u32, n: u32, due_ms: i64, db_ms: i64 },
    Ended { inst: usize, id: TimerId, attempt: u32, how: String },
    // An effect in a transaction of a handler, which has committed.
    Effect { id: TimerId, attempt: u32 },
    // Users.
    Asked { call: usize, db_ms: i64, due_in_ms: Option<i64>, key: Option<String>, what: String },
    Told { call: usize, what: Told },
    // Something is wrong up to a time, and what.
    Fault { until: i64, what: String },
    // No more faults and no more calls from here on.
    Calm,
    // What is left at the end.
    Left { id: TimerId, n: u32, due_ms: i64, is_series: bool, is_buried: bool, begun_by: Option<u64> },
    End { db_ms: i64, statements: u64 },
}

/// The end of an attempt.
#[derive(Clone, Debug)]
pub(crate) struct Settled {
    pub(crate) inst: usize,
    pub(crate) epoch: u64,
    pub(crate) id: TimerId,
    pub(crate) attempt: u32,
    pub(crate) told: &'static str,
    /// The timer that is stored then: its id, when it is due, and how many attempts count.
    pub(crate) next: Option<(TimerId, i64, u32)>,
    /// How often its series runs, by the rule that it has then.
    pub(crate) every_ms: Option<i64>,
    pub(crate) is_series: bool,
    pub(crate) db_ms: i64,
}

/// How an attempt ends that ends its process.
pub(crate) const KILLS: &str = "ends its process";

/// The answer to a retry, if the key of the run belongs to its series.
pub(crate) const OF_ITSELF: &str = "its series has its key";

/// The answer to a user.
#[derive(Clone, Debug)]
#[allow(dead_code, reason = "all of it is printed")]
pub(crate) enum Told {
    Saved(TimerId),
    KeyTaken,
    Series(String),
    Removed,
    Running,
    NotFound,
    Moved(TimerId, i64),
    Failed(String),
    Other(String),
}

/// Each event with its time since the world began.
#[derive(Clone, Default)]
pub(crate) struct History {
    pub(crate) now: i64,
    pub(crate) events: Vec<(i64, Event)>,
}

impl History {
    pub(crate) fn push(&mut self, event: Event) {
        self.events.push((self.now, event));
    }

    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for (at, event) in &self.events {
            let _ = writeln!(text, "{at:>10} {event:?}");
        }
        text
    }
}
