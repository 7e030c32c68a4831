//! Loads and lists: calls that only read.

use std::ops::ControlFlow;

use super::{Lookup, ended, find, find_buried, shown};
use crate::id::{Place, TimerId, millis, timestamp};
use crate::store::{
    self, Ask, Counts, Cursor, Loaded, Look, Looked, Near, Owner, Page, Part, Phase, Shown, Sight, Stored,
    Tally,
};

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
    /// Shows what was put aside because it could not be read, as far as it can.
    fn damaged(&self, after: Place) -> Result<Vec<Shown>, Self::Error> {
        let _ = after;
        Ok(Vec::new())
    }
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

pub(crate) fn look<L: ReadTables>(tables: &L, look: Look) -> Result<Looked, L::Error> {
    let Look { filter, sight } = look;
    let (epoch, paused) = (tables.epoch()?, tables.paused()?);
    let show = |row: Stored| {
        let phase = sight.phase(&row, epoch, &paused);
        Shown::new(row, phase)
    };
    if let Some(which) = &filter.which {
        let standing = match find(tables, which)? {
            Some(row) => {
                let attempt = tables.attempt(row.timer.place())?;
                Some(shown(row, attempt))
            }
            None => None,
        };
        let found = standing.into_iter().chain(find_buried(tables, which)?).map(show);
        let found = found.chain(ended::last_of(tables, which)?);
        return Ok((found.filter(|shown| filter.wants(shown)).collect(), None));
    }
    let (mut found, mut passed, mut stopped) = (Vec::new(), 0_u16, None);
    let mut next = Some(filter.start());
    while let (Some(Cursor { part, after }), None) = (next, stopped) {
        if filter.limit == 0 {
            return Ok((found, next));
        }
        // Notes a timer, and whether the page ends with it.
        let mut pass = |found: &mut Vec<Shown>, at: Place, shown: Option<Shown>| {
            passed += 1;
            found.extend(shown.filter(|shown| filter.wants(shown)));
            if found.len() < filter.limit && passed < store::PASSED {
                return ControlFlow::Continue(());
            }
            stopped = Some(Cursor { part, after: at });
            ControlFlow::Break(())
        };
        match part {
            Part::Ended => {
                let (found, last) = ended::page(tables, &filter, after)?;
                return Ok((found, last.map(|after| Cursor { part, after })));
            }
            Part::Standing => {
                let from = filter.from.map_or(i64::MIN, millis);
                let after = if after.due_ms < from {
                    Place { due_ms: from.saturating_sub(1), unique: u64::MAX }
                } else {
                    after
                };
                let until = filter.until.map_or(i64::MAX, millis);
                tables.heads(after, &mut |at, head| {
                    if at.due_ms >= until {
                        return Ok(ControlFlow::Break(()));
                    }
                    let row = if filter.wants_kind(head.kind) { tables.row(at)? } else { None };
                    let attempt = tables.attempt(at)?;
                    Ok(pass(&mut found, at, row.map(|row| show(shown(row, attempt)))))
                })?;
            }
            Part::Buried => {
                let after = TimerId { due_ms: after.due_ms, unique: after.unique };
                tables.buried(after, &mut |row| {
                    let at = row.timer.id.place();
                    pass(&mut found, at, Some(show(row)))
                })?;
            }
            Part::Damaged => {
                for shown in tables.damaged(after)? {
                    let at = shown.timer.timer.place();
                    if pass(&mut found, at, Some(shown)).is_break() {
                        break;
                    }
                }
            }
        }
        next = filter.next_part(part);
    }
    Ok((found, stopped))
}

/// Up to so many timers are counted one by one.
const COUNTED: u64 = 100_000;

/// Counts the first timers, by their due times. The others, if there are more, wait, and are taken for like the ones that were
/// counted and wait.
pub(crate) fn tally<L: ReadTables>(tables: &L, sight: Sight) -> Result<Tally, L::Error> {
    let (epoch, paused) = (tables.epoch()?, tables.paused()?);
    let Counts { stored, begun, buried, .. } = tables.counts()?;
    let (mut tally, mut counted) = (Tally::default(), 0);
    tables.heads(Place::FIRST, &mut |at, head| {
        if let Some(row) = tables.row(at)? {
            let attempt = tables.attempt(at)?;
            let phase = sight.phase(&shown(row, attempt), epoch, &paused);
            *tally.counts.entry((head.kind.to_owned(), phase)).or_default() += 1;
        }
        counted += 1;
        Ok(if counted == COUNTED { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    let is_ahead = |phase| matches!(phase, Phase::Waiting | Phase::Retrying);
    scale(&mut tally, is_ahead, (stored + begun).saturating_sub(counted));
    let mut dead = 0;
    tables.buried(TimerId { due_ms: i64::MIN, unique: 0 }, &mut |row| {
        *tally.counts.entry((row.kind, Phase::Buried)).or_default() += 1;
        dead += 1;
        if dead == COUNTED { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    scale(&mut tally, |phase| phase == Phase::Buried, buried.saturating_sub(dead));
    Ok(tally)
}

/// So many more are in some phases, of the same kinds.
fn scale(tally: &mut Tally, is_of: impl Fn(Phase) -> bool, more: u64) {
    let all: u64 = tally.counts.iter().filter(|((_, phase), _)| is_of(*phase)).map(|(_, count)| count).sum();
    for ((_, phase), count) in &mut tally.counts {
        *count += if is_of(*phase) { count.saturating_mul(more) / all.max(1) } else { 0 };
    }
    tally.is_estimate |= more > 0;
}
