//! Loads and lists: calls that only read.

use std::ops::ControlFlow;

use super::{Lookup, shown};
use crate::id::{Place, TimerId, timestamp};
use crate::store::{Ask, Counts, Loaded, Near, Owner, Page, Stored};

/// How many timers of kinds without a handler a load passes for each that it may load.
const PASSED: usize = 4;

/// The part of a timer that a load looks at.
pub(crate) struct Head<'a> {
    pub(crate) id: TimerId,
    pub(crate) kind: &'a str,
}

/// Is shown one timer after the other, until it says to stop.
pub(crate) type Show<'a, E> = &'a mut dyn FnMut(Place, Head<'_>) -> Result<ControlFlow<()>, E>;

/// As [`Show`], for buried timers.
pub(crate) type ShowBuried<'a> = &'a mut dyn FnMut(Stored) -> ControlFlow<()>;

/// The maps, to be read.
pub(crate) trait ReadTables: Lookup {
    fn counts(&self) -> Result<Counts, Self::Error>;
    /// Shows the timers after a place, until told to stop.
    fn heads(&self, after: Place, show: Show<'_, Self::Error>) -> Result<(), Self::Error>;
    /// As [`heads`](Self::heads), of those that are series.
    fn series(&self, after: Place, show: Show<'_, Self::Error>) -> Result<(), Self::Error>;
    fn buried(&self, after: TimerId, show: ShowBuried<'_>) -> Result<(), Self::Error>;
}

pub(crate) fn load<L: ReadTables>(tables: &L, owner: Owner, ask: Ask) -> Result<Loaded, L::Error> {
    if tables.epoch()? != owner.epoch {
        return Ok(Loaded::lost());
    }
    let until = Place::last_of(ask.until);
    let limit = ask.limit.max(1);
    let mut loaded = Loaded { timers: Vec::new(), end: ask.after.max(until), next_due: None, lost: false };
    let (mut passed, mut last) = (0, None);
    tables.heads(ask.after, &mut |at, head| {
        if at > until || loaded.timers.len() == limit || passed == limit.saturating_mul(PASSED) {
            if let (Some(last), true) = (last, at <= until) {
                loaded.end = last;
            }
            loaded.next_due = Some(timestamp(at.due_ms));
            return Ok(ControlFlow::Break(()));
        }
        last = Some(at);
        let is_wanted = ask.kinds.contains(head.kind)
            && tables.attempt(at)?.is_none_or(|attempt| attempt.epoch != owner.epoch);
        if is_wanted {
            loaded.timers.push(Near { due_ms: at.due_ms, id: head.id });
        } else {
            passed += 1;
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(loaded)
}

pub(crate) fn list<L: ReadTables>(tables: &L, page: Page) -> Result<Vec<Stored>, L::Error> {
    let mut found = Vec::new();
    if page.limit == 0 {
        return Ok(found);
    }
    let is_wanted = |kind: &str| page.kind.as_ref().is_none_or(|wanted| wanted == kind);
    let full = |found: &Vec<Stored>| {
        if found.len() == page.limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    if page.buried {
        let after = TimerId { due_ms: page.after.due_ms, unique: page.after.unique };
        tables.buried(after, &mut |row| {
            if is_wanted(&row.kind) && (row.series.is_some() || !page.only_series) {
                found.push(row);
            }
            full(&found)
        })?;
    } else {
        let mut show = |at, head: Head<'_>| {
            if is_wanted(head.kind)
                && let Some(row) = tables.row(at)?
            {
                let attempt = tables.attempt(at)?;
                found.push(shown(row, attempt));
            }
            Ok(full(&found))
        };
        if page.only_series {
            tables.series(page.after, &mut show)?;
        } else {
            tables.heads(page.after, &mut show)?;
        }
    }
    Ok(found)
}
