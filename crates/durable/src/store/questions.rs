//! What a store is asked.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;

use super::{Near, Series};
use crate::id::{Place, TimerId};

/// A timer to be saved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTimer {
    /// Its name for life. It is due at the [first due time](TimerId::first_due) of that.
    pub id: TimerId,
    /// Which handler it is for.
    pub kind: String,
    /// What the handler is given, as JSON.
    pub payload: Vec<u8>,
    /// A name given by the user. No two timers that are stored or begun have the same.
    pub key: Option<String>,
    /// How it goes on, if it is not the only one.
    pub series: Option<Series>,
    /// Whether a stored timer that has the key makes way.
    pub replaces: bool,
}

/// Which timer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Which {
    /// By its name. The occurrences of a series have a name each.
    Id(TimerId),
    /// By its key.
    Key(String),
}

impl From<TimerId> for Which {
    fn from(id: TimerId) -> Self {
        Self::Id(id)
    }
}

impl From<&str> for Which {
    fn from(key: &str) -> Self {
        Self::Key(key.to_owned())
    }
}

impl From<String> for Which {
    fn from(key: String) -> Self {
        Self::Key(key)
    }
}

/// What is to be loaded.
#[derive(Clone, Debug)]
pub struct Ask {
    /// Nothing up to here: the end of the load before, or [`Place::FIRST`].
    pub after: Place,
    /// Nothing that is due later.
    pub until: Timestamp,
    /// No more than so many. At least one.
    pub limit: usize,
    /// The kinds that the owner has handlers for. Others are left alone.
    pub kinds: Kinds,
}

/// Names of kinds.
pub type Kinds = Arc<BTreeSet<String>>;

/// What is to be begun.
#[derive(Clone, Debug)]
pub struct ToBegin {
    /// The timers, where they stood when they were loaded.
    pub timers: Vec<Near>,
    /// The kinds that the owner has handlers for. Others are left alone.
    pub kinds: Kinds,
}

/// The end of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The timer, where it stood when it was begun.
    pub timer: Near,
    /// The number that [`Store::begin`](super::Store::begin) gave the attempt. With the owner's epoch it is the fence.
    pub attempt: u32,
    /// The series by which the end was planned, as it stands after this attempt; `None` for a timer without one.
    ///
    /// If the stored series has another rule by now, [`End::Done`] and [`End::Bury`] are answered
    /// [`Settled::Replanned`](super::Settled::Replanned), whether there is a next occurrence or not. If it has the same
    /// rule, [`End::Again`] stores this series with the timer.
    pub series: Option<Series>,
    /// What becomes of the timer.
    pub end: End,
}

/// What becomes of a timer after an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// It is deleted, and its series goes on.
    Done {
        /// The next occurrence, if there is one.
        next: Option<Next>,
    },
    /// It is stored again, for another attempt.
    Again {
        /// When.
        due: Timestamp,
        /// Why, if the attempt failed.
        error: Option<String>,
        /// Whether this attempt counts.
        counts: bool,
    },
    /// It is put aside, with its errors, and its series goes on.
    Bury {
        /// Why.
        reason: String,
        /// The next occurrence, if there is one.
        next: Option<Next>,
    },
    /// It is deleted with its series: it was cancelled before its handler began.
    Cancelled,
}

/// The next occurrence of a series.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Next {
    /// Its scheduled instant.
    pub due: Timestamp,
    /// The series as it stands then, with the rule of [`Ended::series`].
    pub series: Series,
}

/// Which timers to list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Those that are buried, instead of those that are stored or begun.
    pub buried: bool,
    /// Only those of this kind.
    pub kind: Option<String>,
    /// Nothing up to here: the place of the last timer of the page before, or [`Place::FIRST`].
    pub after: Place,
    /// No more than so many.
    pub limit: usize,
}

impl Default for Page {
    fn default() -> Self {
        Self { buried: false, kind: None, after: Place::FIRST, limit: 100 }
    }
}
