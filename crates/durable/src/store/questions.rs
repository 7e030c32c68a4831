//! Questions to a store, and a series as it is stored.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Serialize, Serializer};
use timingwheel_calendar::Missed;

use super::Near;
use crate::id::{Place, TimerId, floor_millis, timestamp};

/// A timer to be saved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTimer {
    /// Its name for life. It is due at the [first due time](TimerId::first_due) of that.
    pub id: TimerId,
    /// Which handler it is for.
    pub kind: String,
    /// The payload, as JSON.
    pub payload: Vec<u8>,
    /// A name given by the user, of 1 to 1,024 bytes without a zero. No two timers that are stored or begun have the same.
    pub key: Option<String>,
    /// How it goes on, if it is not the only one.
    pub series: Option<Series>,
    /// Whether it replaces a timer that has the key. [`Saved`](super::Saved) tells what becomes of that. A series replaces only
    /// another one.
    pub replaces: bool,
    /// The rule of its series has no instant to come, so it is not stored itself, and its id means nothing. But a series
    /// that has the key is [kept, updated](super::Saved) or dropped as by any other save.
    pub is_over: bool,
}

impl NewTimer {
    /// A timer without a key, and of no series.
    #[must_use]
    pub fn new(id: TimerId, kind: impl Into<String>, payload: impl Into<Vec<u8>>) -> Self {
        let (kind, payload) = (kind.into(), payload.into());
        Self { id, kind, payload, key: None, series: None, replaces: false, is_over: false }
    }
}

/// How many bytes a key may have, in all stores.
pub(crate) const LONGEST_KEY: usize = 1_024;

/// How many bytes a payload may have, in all stores: 64 MiB.
pub const LARGEST_PAYLOAD: usize = 64 << 20;

/// # Errors
/// In words, with the length that was given.
pub(crate) fn check_payload(payload: &[u8]) -> Result<(), String> {
    let len = payload.len();
    if len <= LARGEST_PAYLOAD {
        return Ok(());
    }
    Err(format!("a payload must have {LARGEST_PAYLOAD} bytes at the most, got {len}"))
}

/// # Errors
/// In words, with the key that was given.
pub(crate) fn check_key(key: Option<&str>) -> Result<(), String> {
    match key {
        Some(key) if key.is_empty() || key.len() > LONGEST_KEY => {
            Err(format!("a key must have 1 to {LONGEST_KEY} bytes, got {}", key.len()))
        }
        Some(key) if key.contains('\0') => Err(format!("a key must have no character of zero, got {key:?}")),
        _ => Ok(()),
    }
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

/// A load.
#[derive(Clone, Debug)]
pub struct Ask {
    /// Only timers after this place: the end of the load before, or [`Place::FIRST`].
    pub after: Place,
    /// Only timers that are due by then.
    pub until: Timestamp,
    /// How many timers at most. At least one.
    pub limit: usize,
    /// The kinds that the owner has handlers for. Others are left alone.
    pub kinds: Kinds,
}

/// Names of kinds.
pub type Kinds = Arc<BTreeSet<String>>;

/// Timers to be begun.
#[derive(Clone, Debug)]
pub struct ToBegin {
    /// The timers, where they stood when they were loaded. Each at most once.
    pub timers: Vec<Near>,
    /// The kinds that the owner has handlers for. Others are left alone.
    pub kinds: Kinds,
}

/// The end of an attempt.
///
/// The owner's epoch, the attempt and the version are the fence: if the timer is not as it began, nothing is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The timer, where it stood when it was begun.
    pub timer: Near,
    /// The number that [`Store::begin`](super::Store::begin) gave the attempt. Attempts count from 1: with 0 the timer has
    /// to be stored and none may have begun, as where a pending run is planned anew.
    pub attempt: u32,
    /// The version by which the end was decided. If the timer has another one, [`Settled::Changed`](super::Settled::Changed)
    /// is answered.
    pub version: u32,
    /// How the timer is to stand then.
    pub change: Change,
}

/// How a timer is to stand after an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is deleted.
    Delete,
    /// It is stored again: for another attempt, or as the next occurrence of its series.
    Put(Put),
    /// It is buried, with its errors.
    Bury {
        /// Why.
        reason: String,
        /// Whether the handler was called. Then the reason is the error of this attempt; otherwise the attempt does not count.
        was_called: bool,
        /// The next occurrence of its series, if there is one.
        next: Option<Put>,
    },
}

impl Change {
    /// The timer that is stored again, or next.
    pub(crate) fn put(&self) -> Option<&Put> {
        match self {
            Self::Put(put) | Self::Bury { next: Some(put), .. } => Some(put),
            Self::Delete | Self::Bury { next: None, .. } => None,
        }
    }
}

/// How a timer is stored again. Kind, payload and key stay as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Put {
    /// Its name, and when it is due. The next occurrence of a series has another name, with the same number, and no
    /// failures.
    pub timer: Near,
    /// How it goes on.
    pub series: Option<Series>,
    /// How many attempts count.
    pub attempts: u32,
    /// Why the attempt failed, if it did. Stores keep the last ten. With another name: why this run did not happen.
    pub error: Option<String>,
}

/// Which timers to list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The buried timers, instead of those that are stored or begun.
    pub buried: bool,
    /// Only those of this kind.
    pub kind: Option<String>,
    /// Only those that are series.
    pub only_series: bool,
    /// Nothing up to here: the place of the last timer of the page before, or [`Place::FIRST`].
    pub after: Place,
    /// No more than so many.
    pub limit: usize,
}

impl Default for Page {
    fn default() -> Self {
        Self { buried: false, kind: None, only_series: false, after: Place::FIRST, limit: 100 }
    }
}

/// A rule by which a timer comes again and again, and where it stands.
///
/// To a store these are three texts: the rule, the policy for missed runs, and the [standing](Self::standing). Two
/// rules are the same if their texts are equal, and so are two policies. A save compares the payloads too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Series {
    /// The rule, with its zone, as a `Plan` of `timingwheel-calendar` prints it.
    pub rule: String,
    /// The policy for missed runs.
    #[serde(serialize_with = "text")]
    pub missed: Missed,
    /// The millisecond after which the rule had the pending run as its first.
    #[serde(skip)]
    pub(crate) after_ms: Option<i64>,
    /// The runs up to this millisecond since 1970 were missed, and this many of them may still run.
    #[serde(skip)]
    pub(crate) catching_up: Option<(i64, u32)>,
}

fn text<S: Serializer>(missed: &Missed, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(missed)
}

impl Series {
    /// A series that has missed nothing yet.
    #[must_use]
    pub const fn new(rule: String, missed: Missed) -> Self {
        Self { rule, missed, after_ms: None, catching_up: None }
    }

    /// The pending run is the first that the rule had after this instant, by the zone data of the time when it was planned.
    ///
    /// With it a runner finds a run that its rule would not plan by today's clock and zone data.
    #[must_use]
    pub fn planned_after(mut self, last: Timestamp) -> Self {
        self.after_ms = Some(floor_millis(last));
        self
    }

    /// The instant that [`planned_after`](Self::planned_after) has set.
    pub(crate) fn after(&self) -> Option<Timestamp> {
        self.after_ms.map(timestamp)
    }

    /// How it stands, as a text that changes from run to run.
    #[must_use]
    pub fn standing(&self) -> String {
        let after = self.after_ms.map(|after| format!("after {after}"));
        let more = self.catching_up.map(|(until, left)| format!("{left} more up to {until}"));
        after.into_iter().chain(more).collect::<Vec<_>>().join("; ")
    }

    /// The series of three texts.
    ///
    /// # Errors
    /// In words, with the text that is not as [`standing`](Self::standing) or [`Missed`] prints it. The rule is not read.
    pub fn from_texts(rule: String, missed: &str, standing: &str) -> Result<Self, String> {
        let told = |got: &str| {
            format!(
                "a series must have a policy as `each 3` and a standing as `after 5; 2 more up to 9`, got {got:?}"
            )
        };
        let error = || told(standing);
        let mut series = Self::new(rule, missed.parse().map_err(|_| told(missed))?);
        for part in standing.split("; ").filter(|part| !part.is_empty()) {
            if let Some(after) = part.strip_prefix("after ") {
                series.after_ms = Some(after.parse().map_err(|_| error())?);
            } else {
                let (left, until) = part.split_once(" more up to ").ok_or_else(error)?;
                let more = until.parse().ok().zip(left.parse().ok());
                series.catching_up = Some(more.ok_or_else(error)?);
            }
        }
        Ok(series)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_is_read_back_as_it_was_written() {
        let mut series = Series::new("cron 0 9 * * * in UTC".into(), Missed::each(7));
        let read = |series: &Series| {
            Series::from_texts(series.rule.clone(), &series.missed.to_string(), &series.standing())
        };
        assert_eq!(read(&series).as_ref(), Ok(&series));
        series.catching_up = Some((-5, 3));
        assert_eq!(read(&series).as_ref(), Ok(&series));
        series = series.planned_after(timestamp(-7));
        assert_eq!(read(&series).as_ref(), Ok(&series));
        for (missed, standing) in
            [("each", ""), ("each 1", "after x"), ("each 1", "3 more"), ("each 1", "often")]
        {
            assert!(Series::from_texts(String::new(), missed, standing).is_err(), "{missed}, {standing}");
        }
    }
}
