//! What a store answers that several instances share.

use std::time::Duration;

use jiff::Timestamp;

/// How an instance stands in a store that it shares, from [`Store::renew`](super::Store::renew).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renewed {
    /// Whether the owner still is one, and of what.
    pub standing: Standing,
    /// When it should renew again.
    pub again_in: Duration,
    /// How long it may begin timers, from the moment before it asked. Then others may have them.
    pub good_for: Duration,
    /// The clock by which timers of this store are due, when it answered. `None` if it is the instance's own.
    pub clock: Option<Timestamp>,
    /// When the first of its timers is due that it has not begun, if that was asked for.
    pub first_due: Option<Timestamp>,
    /// How many shards were taken from instances that were silent for too long.
    pub taken: u32,
    /// How many shards it has, and how many there are. An owner without handlers has (0, 0).
    pub shards: (u32, u32),
}

/// Whether an owner still is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is, and has what it had.
    Same,
    /// It is, and has other timers than before.
    Changed,
    /// It was silent for too long, and others have its timers. It may join again.
    Lost,
    /// Another one has followed, for good.
    Followed,
}

/// What another instance or program has done, from [`Store::hint`](super::Store::hint).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// The timers are shared out anew.
    Shares,
    /// Timers were stored that are due from then to then.
    Saved(Timestamp, Timestamp),
}
