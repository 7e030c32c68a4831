//! Answers of a store.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize, Serializer};

use super::{NewTimer, Paused, Series};
use crate::id::{Place, TimerId, millis, timestamp};

/// A timer, and when it is due now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Near {
    pub(crate) due_ms: i64,
    pub(crate) id: TimerId,
}

impl Near {
    /// The timer of this name, due then. A fraction of a millisecond counts as a whole one.
    #[must_use]
    pub fn new(id: TimerId, due: Timestamp) -> Self {
        Self { due_ms: millis(due), id }
    }

    /// Its name.
    #[must_use]
    pub const fn id(self) -> TimerId {
        self.id
    }

    /// When it is due.
    #[must_use]
    pub fn due(self) -> Timestamp {
        timestamp(self.due_ms)
    }

    /// Its place in the order of the store.
    #[must_use]
    pub const fn place(self) -> Place {
        Place { due_ms: self.due_ms, unique: self.id.unique }
    }
}

impl From<TimerId> for Near {
    /// The timer, if it has not been moved.
    fn from(id: TimerId) -> Self {
        Self { due_ms: id.due_ms, id }
    }
}

/// The answer to a save.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Saved {
    /// It is stored.
    Stored(TimerId),
    /// It is stored in place of a timer that had its key and had not begun. That one is gone, and does not run.
    Replaced {
        /// The new timer.
        id: TimerId,
        /// The timer that is gone.
        dropped: Near,
    },
    /// It is stored under the key of a timer that has begun. That attempt goes on without the key. Nothing follows it, as
    /// after a cancel.
    Follows {
        /// The new timer.
        id: TimerId,
        /// The timer that has begun.
        begun: TimerId,
    },
    /// Its key belongs to this timer, and nothing was done: the save may not replace it.
    KeyTaken(TimerId),
    /// Its key belongs to this series, which has the same rule, policy and payload. Nothing was done.
    Kept(TimerId),
    /// Its key belongs to this series, which has the new payload and policy now. A pending run stays where it was, and gets
    /// the new payload; so do its attempts. If a run has begun, the next one gets it, by the new rule if that changed.
    Updated(TimerId),
    /// The [rule has no instant to come](super::NewTimer::is_over), and nothing was stored.
    Over {
        /// A pending run by another rule, which is gone.
        dropped: Option<Near>,
    },
}

impl Saved {
    /// The timer that has the key now. In a series it is the run that is pending or has begun. `None` if the rule is over.
    #[must_use]
    pub const fn id(self) -> Option<TimerId> {
        match self {
            Self::Stored(id)
            | Self::Replaced { id, .. }
            | Self::Follows { id, .. }
            | Self::KeyTaken(id)
            | Self::Kept(id)
            | Self::Updated(id) => Some(id),
            Self::Over { .. } => None,
        }
    }
}

/// Timers to be armed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// The timers, in order of their places.
    pub timers: Vec<Near>,
    /// Where the load ended: all up to here has been looked at.
    pub end: Place,
    /// When the first timer after that is due, of whatever kind; `None` if there is none.
    pub next_due: Option<Timestamp>,
    /// Whether the caller is no longer the owner. If so, all other fields are empty.
    pub lost: bool,
}

impl Loaded {
    /// The answer to a caller that is no longer the owner.
    #[must_use]
    pub const fn lost() -> Self {
        Self { timers: Vec::new(), end: Place::FIRST, next_due: None, lost: true }
    }
}

/// Whether a timer has begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Begun {
    /// It has begun. The answer has the number of the attempt.
    Yours(Box<Stored>),
    /// It has been cancelled, moved or settled, or is of another kind.
    Gone,
    /// It was cancelled while an earlier owner ran it, and that owner died: it is deleted.
    Cancelled,
    /// Nothing was done: somebody holds the timer for a moment, such as a transaction that cancels it, or a call whose answer was
    /// lost. The runner asks again soon.
    Locked,
    /// The caller is no longer the owner.
    Lost,
}

/// Whether an attempt could be ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled {
    /// It has ended, and the [change](super::Change) was made.
    Done,
    /// Nothing was done: the timer was changed since it began. This is how it stands.
    Changed(Box<Stored>),
    /// Nothing was done: the attempt had ended before, by a call whose answer was lost, or in a transaction of its handler.
    Gone,
    /// Nothing was done: somebody holds the timer for a moment, such as a transaction that cancels it. The runner tries again
    /// soon.
    Locked,
    /// Nothing was done: the caller is no longer the owner, or another owner that lives has begun the timer.
    Fenced,
}

/// The answer to a cancel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removal {
    /// The timer is gone. No handler will be given it.
    Removed(Near),
    /// The present owner has begun the timer, by this attempt, and its handler may run. When the attempt ends, or its process
    /// dies, nothing follows: no other attempt, and no other occurrence of the series.
    Running(TimerId, u32),
    /// There is no such timer: it has ended, was removed before, or never was.
    NotFound,
}

/// The answer to a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// It is due at another time now.
    Moved {
        /// As it was.
        from: Near,
        /// As it is.
        to: Near,
    },
    /// The present owner has begun it, by this attempt.
    Running(TimerId, u32),
    /// There is no such timer.
    NotFound,
}

/// The answer to [`unbury`](super::Store::unbury).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Taken {
    /// It is stored again. A run of a series has another name now: see [`Store::unbury`](super::Store::unbury).
    Stored(Near),
    /// It is deleted.
    Deleted,
    /// Another timer has its key now, and it stays buried.
    KeyTaken(TimerId),
    /// No such timer is buried.
    NotFound,
}

/// An attempt that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Which.
    pub attempt: u32,
    /// Its error.
    pub error: String,
    /// When it failed; if its process ended, when it had begun.
    pub at: Option<Timestamp>,
}

/// When things happened to a timer. `None` for what has not happened, and for what an older format has not noted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Times {
    /// It was saved; a run of a series: the series was.
    pub made: Option<Timestamp>,
    /// The attempt under way began.
    pub begun: Option<Timestamp>,
    /// It was buried.
    pub buried: Option<Timestamp>,
    /// It has ended. Such a timer is [history](crate::Durable::keep_history).
    pub ended: Option<Timestamp>,
}

/// The state of a timer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum State {
    /// It waits for its time, or for its next attempt.
    Stored,
    /// It has begun.
    Begun {
        /// By whom.
        epoch: u64,
        /// The number of the attempt.
        attempt: u32,
    },
    /// It is buried.
    Buried(Buried),
}

/// Why a timer is buried, that is, kept for people to look at. Its attempts are used up, its handler asked for it, or its payload
/// cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Buried {
    /// In words.
    pub reason: String,
}

impl Buried {
    /// For this reason.
    #[must_use]
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into() }
    }
}

/// All that a store has of a timer. serde writes the payload as JSON, and as text if it is none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Stored {
    /// Its name, and when it is due now.
    pub timer: Near,
    /// Which handler it is for.
    pub kind: String,
    /// The payload, as JSON.
    #[serde(serialize_with = "json_or_text")]
    pub payload: Vec<u8>,
    /// The user's name for it.
    pub key: Option<String>,
    /// How it goes on.
    pub series: Option<Series>,
    /// How many attempts have begun, this one included.
    pub attempts: u32,
    /// How many of them ended without an answer, because their process died or was stopped.
    pub crashes: u32,
    /// The last attempts that failed, the oldest first.
    pub failures: Vec<Failure>,
    /// It was cancelled, or another one was saved under its key, after it had begun: nothing follows the present attempt, also if its
    /// process dies.
    pub cancelled: bool,
    /// Counts the changes by others since it was stored: by cancels and by saves under its key.
    pub version: u32,
    /// Its state.
    pub state: State,
    /// When that came about.
    pub times: Times,
}

fn json_or_text<S: Serializer>(payload: &[u8], to: S) -> Result<S::Ok, S::Error> {
    match serde_json::from_slice::<serde_json::Value>(payload) {
        Ok(json) => json.serialize(to),
        Err(_) => to.serialize_str(&String::from_utf8_lossy(payload)),
    }
}

/// A timer that is overdue, from [`Store::overdue`](super::Store::overdue).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overdue {
    /// Its name, and when it is due.
    pub timer: Near,
    /// Which handler it is for.
    pub kind: String,
    /// The rule of its series.
    pub rule: Option<String>,
    /// Whether an owner that lives has that handler.
    pub is_handled: bool,
    /// This owner has begun it.
    pub has_begun: bool,
}

/// As it is once it is saved: `replaces` and `is_over` say how to save it, and are left out.
impl From<NewTimer> for Stored {
    fn from(timer: NewTimer) -> Self {
        let NewTimer { id, kind, payload, key, series, replaces: _, is_over: _ } = timer;
        let (timer, failures, state) = (id.into(), Vec::new(), State::Stored);
        Self {
            timer,
            kind,
            payload,
            key,
            series,
            attempts: 0,
            crashes: 0,
            failures,
            cancelled: false,
            version: 0,
            state,
            times: Times::default(),
        }
    }
}

/// How many timers there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Counts {
    /// Stored: those that have not begun.
    pub stored: u64,
    /// Begun, and not ended.
    pub begun: u64,
    /// Buried.
    pub buried: u64,
    /// Whether these are estimates, as of a table in PostgreSQL that has more than half a gigabyte. They are mostly within a
    /// few percent.
    pub is_estimate: bool,
}

/// How an instance stands in a store that it shares, from [`Store::renew`](super::Store::renew).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Renewed {
    /// Whether the owner still is one, and has the same timers.
    pub standing: Standing,
    /// When it should renew again.
    pub again_in: Duration,
    /// How long it may begin timers, counted from before the call. After that, other instances may have them.
    pub good_for: Duration,
    /// The time, by the clock by which timers of this store are due. `None` if that is the instance's own clock.
    pub clock: Option<Timestamp>,
    /// If it was asked for: when the first of its timers is due that has not begun.
    pub first_due: Option<Timestamp>,
    /// From when on a load finds its timers, except some that were saved late. So a start need not read from the beginning, where
    /// a database may have millions of deleted ones.
    pub low: Option<Timestamp>,
    /// The kinds that are paused.
    pub paused: Paused,
    /// How many shards were taken from instances that were silent for too long.
    pub taken: u32,
    /// How many shards it has, and how many there are. An owner without handlers has (0, 0).
    pub shards: (u32, u32),
}

/// Whether an owner still is one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// It is, and has the same timers.
    Same,
    /// It is, and has other timers than before.
    Changed,
    /// It was silent for longer than its lease, and others have its timers. It may join again.
    Expired,
    /// Another owner has taken over, for good.
    #[default]
    Lost,
}

/// A change by another instance or program, from [`Store::hint`](super::Store::hint).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// The timers are shared out anew.
    Shares,
    /// Timers were stored that are due from then to then.
    Saved(Timestamp, Timestamp),
    /// This timer was cancelled after it had begun. It may be another owner's.
    Cancelled(TimerId),
}
