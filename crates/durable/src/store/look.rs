//! Looks at timers, and acts on many of them: the questions of an operator, and the answers.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize, Serializer};

use super::{Kinds, Near, Page, State, Stored, Which};
use crate::id::{Place, TimerId, millis};

/// Where a timer is on its way. serde has it as its [name](Self::name).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Phase {
    /// Its time is to come.
    Waiting,
    /// An attempt failed, and the time of the next one is to come.
    Retrying,
    /// Its time has come, and it is about to begin.
    Due,
    /// Its time has come, and its kind is [paused](crate::Durable::pause).
    Paused,
    /// Its time has come, and no instance that runs has a handler for its kind.
    Unhandled,
    /// An instance has begun it.
    Running,
    /// It is [buried](super::Buried).
    Buried,
    /// It cannot be read. [`Shown::damage`] says why.
    Damaged,
    /// It has ended: its handler has answered [`Done`](crate::Answer::Done). Or it was the last run of its series, and was missed.
    /// This phase and those below are seen where a [history](crate::Durable::keep_history) is kept.
    Done,
    /// It has ended: it was cancelled, before or during an attempt.
    Cancelled,
    /// It has ended: a save under its key has put another one in its place.
    Replaced,
    /// It has ended: it was a run that its series has missed or planned anew, and its handler was not called.
    Skipped,
    /// It has ended: it was buried, and somebody has deleted it.
    Failed,
}

impl Phase {
    const ALL: [(Self, &'static str); 13] = [
        (Self::Waiting, "waiting"),
        (Self::Retrying, "retrying"),
        (Self::Due, "due"),
        (Self::Paused, "paused"),
        (Self::Unhandled, "unhandled"),
        (Self::Running, "running"),
        (Self::Buried, "buried"),
        (Self::Damaged, "damaged"),
        (Self::Done, "done"),
        (Self::Cancelled, "cancelled"),
        (Self::Replaced, "replaced"),
        (Self::Skipped, "skipped"),
        (Self::Failed, "failed"),
    ];

    /// Whether a timer in this phase is history.
    #[must_use]
    pub const fn has_ended(self) -> bool {
        matches!(self, Self::Done | Self::Cancelled | Self::Replaced | Self::Skipped | Self::Failed)
    }

    /// Its name, as in the SQL view.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(phase, _)| *phase == self).map_or("", |(_, name)| name)
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Phase {
    type Err = String;

    /// # Errors
    /// In words, with the names that there are.
    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(_, name)| *name == text).map(|(phase, _)| *phase);
        found.ok_or_else(|| {
            let names = Self::ALL.map(|(_, name)| name).join(", ");
            format!("a phase must be one of {names}, got {text:?}")
        })
    }
}

/// Which timers to look at, or to act on: those for which all of it holds.
///
/// # Examples
///
/// ```
/// use timingwheel_durable::{Filter, Phase};
///
/// let dead = Filter::new().phase(Phase::Buried).kind("cancel-order").limit(20);
/// let of_customer = Filter::new().key_prefix("customer-7/");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "it does nothing by itself"]
pub struct Filter {
    pub(crate) which: Option<Which>,
    pub(crate) phase: Option<Phase>,
    pub(crate) kind: Option<String>,
    pub(crate) key_prefix: Option<String>,
    pub(crate) from: Option<Timestamp>,
    pub(crate) until: Option<Timestamp>,
    pub(crate) only_series: bool,
    /// Only those in this part of a store, unless the phase names another.
    pub(crate) part: Option<Part>,
    pub(crate) limit: Option<usize>,
    pub(crate) after: Option<Cursor>,
}

impl Filter {
    /// All timers that have not ended, a hundred at a time.
    pub fn new() -> Self {
        Self::default()
    }

    /// All timers that have ended, of kinds of which a [history](crate::Durable::keep_history) is kept. A hundred at a time, in the
    /// order in which they have ended.
    pub fn history() -> Self {
        Self { part: Some(Part::Ended), ..Self::default() }
    }

    /// The timer of this id or key, buried ones of the key, and the last hundred that have ended.
    pub fn only(which: impl Into<Which>) -> Self {
        Self { which: Some(which.into()), limit: Some(usize::MAX), ..Self::default() }
    }

    /// Those in this phase.
    pub fn phase(mut self, phase: Phase) -> Self {
        self.phase = Some(phase);
        self
    }

    /// Those of this kind.
    pub fn kind(mut self, kind: impl Into<String>) -> Self {
        self.kind = Some(kind.into());
        self
    }

    /// Those whose key begins so.
    pub fn key_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.key_prefix = Some(prefix.into());
        self
    }

    /// Those that are due then or later. Of buried ones, those that were buried then or later, and so with ended ones.
    pub fn from(mut self, from: Timestamp) -> Self {
        self.from = Some(from);
        self
    }

    /// Those that are due before then. Of buried ones, those that were buried before then, and so with ended ones.
    pub fn before(mut self, until: Timestamp) -> Self {
        self.until = Some(until);
        self
    }

    /// So many at the most. A page has 100 unless this is set.
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = Some(limit);
        self
    }

    pub(crate) fn most(&self) -> usize {
        self.limit.unwrap_or(100)
    }

    pub(crate) fn of_page(Page { buried, kind, only_series, after, limit }: Page) -> Self {
        let part = if buried { Part::Buried } else { Part::Standing };
        let after = Some(Cursor { part, after });
        Self { kind, only_series, part: Some(part), limit: Some(limit), after, ..Self::default() }
    }

    /// The part of the store in which a look begins, and the place after which it does.
    pub(crate) fn start(&self) -> Cursor {
        let part = match self.phase {
            Some(Phase::Buried) => Part::Buried,
            Some(Phase::Damaged) => Part::Damaged,
            Some(phase) if phase.has_ended() => Part::Ended,
            _ => self.part.unwrap_or(Part::Standing),
        };
        self.after.unwrap_or(Cursor { part, after: Place::FIRST })
    }

    /// The part after this one, if timers of it may be wanted.
    pub(crate) fn next_part(&self, part: Part) -> Option<Cursor> {
        let next = match (part, self.phase, self.part) {
            (Part::Standing, None, None) => Part::Buried,
            // Damaged ones stand in every part.
            (Part::Buried, None, None) => Part::Damaged,
            _ => return None,
        };
        Some(Cursor { part: next, after: Place::FIRST })
    }

    pub(crate) fn wants_kind(&self, kind: &str) -> bool {
        self.kind.as_ref().is_none_or(|wanted| wanted == kind)
    }

    pub(crate) fn wants(&self, shown: &Shown) -> bool {
        let Shown { timer, phase, .. } = shown;
        let at = timer.times.ended.or(timer.times.buried).map_or(timer.timer.due_ms, millis);
        let key = timer.key.as_deref().unwrap_or_default();
        self.phase.is_none_or(|wanted| wanted == *phase)
            && self.wants_kind(&timer.kind)
            && (timer.series.is_some() || !self.only_series)
            && self.key_prefix.as_ref().is_none_or(|prefix| key.starts_with(prefix))
            && self.from.is_none_or(|from| at >= millis(from))
            && self.until.is_none_or(|until| at < millis(until))
    }
}

/// A part of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Timers that are stored or have begun, by their places.
    Standing,
    /// Buried timers, by their ids.
    Buried,
    /// What could not be read, where it is put aside.
    Damaged,
    /// Timers that have ended, by the time when they did.
    Ended,
}

/// Where a page ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// In this part.
    pub part: Part,
    /// Nothing up to here.
    pub after: Place,
}

/// What decides about the phase of a timer, beside its row.
#[derive(Clone, Debug, Default)]
pub struct Sight {
    /// The time.
    pub now: Timestamp,
    /// The kinds with a handler, where one instance has the store. Empty for one that only looks.
    pub kinds: Kinds,
}

/// The timers of a look, and where the next look begins, if there is more.
pub type Looked = (Vec<Shown>, Option<Cursor>);

/// So many timers are passed in one look at the most, whether they are wanted or not: a page takes no longer than that.
pub(crate) const PASSED: u16 = 2_500;

/// The kinds that are paused.
pub type Paused = BTreeSet<String>;

/// The kinds whose ended timers are kept, and for how long.
pub type Histories = BTreeMap<String, Duration>;

/// How many of the ended timers of a name are told.
pub(crate) const LAST_ENDED: u8 = 100;

impl Sight {
    /// The phase of a timer that can be read, in a store with one owner at a time.
    pub(crate) fn phase(&self, timer: &Stored, owner: u64, paused: &Paused) -> Phase {
        match &timer.state {
            State::Buried(_) => Phase::Buried,
            State::Begun { epoch, .. } if *epoch == owner => Phase::Running,
            _ if timer.timer.due_ms > self.now.as_millisecond() => {
                if timer.attempts > 0 {
                    Phase::Retrying
                } else {
                    Phase::Waiting
                }
            }
            _ if paused.contains(&timer.kind) => Phase::Paused,
            _ if !self.kinds.is_empty() && !self.kinds.contains(&timer.kind) => Phase::Unhandled,
            _ => Phase::Due,
        }
    }
}

/// A timer, as it is shown to an operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Shown {
    /// All that the store has of it. Of a damaged one, as much as can be read.
    pub timer: Stored,
    /// Where it is on its way.
    pub phase: Phase,
    /// The name of the instance that runs it, if instances share the store.
    pub instance: Option<String>,
    /// Why it cannot be read.
    pub damage: Option<String>,
}

impl Shown {
    pub(crate) const fn new(timer: Stored, phase: Phase) -> Self {
        Self { timer, phase, instance: None, damage: None }
    }
}

/// A page of timers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Listing {
    /// The timers: stored and begun ones in the order of their due times, then buried ones in the order of their ids. Ended ones
    /// stand in the order in which they have ended. There may be fewer than the limit, or none, although more follow: a page looks at 2,500 timers at the most.
    pub timers: Vec<Shown>,
    /// The filter of the next page. `None` if this is the last one. serde leaves it out.
    #[serde(skip)]
    pub next: Option<Filter>,
}

/// How many timers there are of each kind in each phase.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Tally {
    /// The numbers. A kind without timers in a phase is missing. serde writes a list of kinds, phases and numbers.
    #[serde(serialize_with = "list")]
    pub counts: BTreeMap<(String, Phase), u64>,
    /// There are so many timers that the numbers were reckoned from a part of them.
    pub is_estimate: bool,
}

fn list<S: Serializer>(counts: &BTreeMap<(String, Phase), u64>, to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(counts.iter().map(|((kind, phase), count)| (kind, phase, count)))
}

/// A timer to act on.
#[derive(Clone, Copy, Debug)]
pub struct Picked {
    /// Its name.
    pub id: TimerId,
    /// If it is a buried run of a series: see [`Store::unbury`](super::Store::unbury).
    pub number: u64,
}

/// What an act has done to timers. Those that are in none of these were gone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// These are gone.
    pub gone: Vec<Near>,
    /// These are stored, due then.
    pub stored: Vec<Near>,
    /// So many have begun. They stay if they were to be moved; nothing follows if they were to be cancelled.
    pub running: u64,
    /// So many stay buried, because another timer has their key.
    pub key_taken: u64,
    /// So many stay as they are, because somebody else holds them, such as an open transaction.
    pub locked: u64,
}
