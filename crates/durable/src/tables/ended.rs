//! The history: timers that have ended, of the kinds of which it is kept. An end is noted by the call that makes it.

use std::iter;
use std::time::Duration;

use jiff::Timestamp;

use super::{About, BegunBy, Each, Lookup, Tables, shown};
use crate::id::{Place, millis};
use crate::store::{Filter, Histories, LAST_ENDED, Phase, Shown, Stored, Which};

/// Sets for how long ended timers of a kind are kept.
pub(crate) fn keep_history<T: Tables>(tables: &mut T, kind: String, age: Duration) -> Result<(), T::Error> {
    tables.about_mut().histories.insert(kind, age);
    Ok(())
}

/// The same of all kinds for which it was ever set.
pub(crate) fn histories<L: Lookup>(tables: &L) -> Result<Histories, L::Error> {
    Ok(tables.about().histories.clone())
}

/// Deletes ended timers that are older than is kept of their kind. Returns how many.
pub(crate) fn prune<T: Tables>(tables: &mut T, most: usize) -> Result<usize, T::Error> {
    let Some(now) = tables.about().now else { return Ok(0) };
    let mut pruned = 0;
    for (kind, age) in histories(tables)? {
        let until = millis(now.checked_sub(age).unwrap_or(Timestamp::MIN));
        while pruned < most
            && let Some((at, old)) =
                tables.ended_from(&kind, Place::FIRST)?.filter(|(at, _)| at.due_ms < until)
        {
            tables.take_ended(at, &old)?;
            pruned += 1;
        }
    }
    Ok(pruned)
}

/// Notes that a timer has ended, if that is kept of its kind. `begun`: its last attempt was under way.
pub(super) fn note_ended<T: Tables>(
    tables: &mut T,
    row: &Stored,
    begun: Option<BegunBy>,
    phase: Phase,
) -> Result<(), T::Error> {
    let About { now, histories, .. } = tables.about();
    let is_kept = histories.get(&row.kind).is_some_and(|age| !age.is_zero());
    let (Some(now), true) = (*now, is_kept) else { return Ok(()) };
    let mut row = shown(row.clone(), begun);
    row.times.ended = Some(now);
    let mut at = Place { due_ms: millis(now), unique: row.timer.id.unique };
    // Two runs of a series may end within a millisecond.
    while tables.ended_from(&row.kind, at)?.is_some_and(|(other, _)| other == at) {
        at = after(at);
    }
    tables.put_ended(at, &Shown::new(row, phase))
}

const fn after(at: Place) -> Place {
    Place::from_number(at.to_number().saturating_add(1))
}

/// The last ended timers of this name, the last one first.
pub(super) fn last_of<L: Lookup>(tables: &L, which: &Which) -> Result<Vec<Shown>, L::Error> {
    let mut named = tables.ended_named(which)?;
    named.sort_unstable_by_key(|(_, at)| std::cmp::Reverse(*at));
    named.truncate(LAST_ENDED.into());
    let found = named.into_iter().map(|(kind, at)| {
        Ok(tables.ended_from(&kind, at)?.filter(|(found, _)| *found == at).map(|(_, shown)| shown))
    });
    found.filter_map(Result::transpose).collect()
}

/// The ended timers after a place, by the time when they ended.
pub(super) fn pass<'a, L: Lookup>(
    tables: &'a L,
    filter: &Filter,
    last: Place,
) -> Each<'a, (Place, Option<Shown>), L::Error> {
    let from = Place { due_ms: filter.from.map_or(i64::MIN, millis), unique: 0 };
    let from = if last == Place::FIRST { from } else { from.max(after(last)) };
    let until = filter.until.map_or(i64::MAX, millis);
    // The next one of each kind.
    let mut heads = Vec::new();
    for kind in tables.about().histories.keys().filter(|kind| filter.wants_kind(kind)) {
        heads.extend(tables.ended_from(kind, from)?);
    }
    Ok(Box::new(iter::from_fn(move || {
        let first = (0..heads.len()).min_by_key(|head| heads[*head].0)?;
        let (at, shown) = heads.swap_remove(first);
        if at.due_ms >= until {
            return None;
        }
        let next = tables.ended_from(&shown.timer.kind, after(at));
        Some(next.map(|next| {
            heads.extend(next);
            (at, Some(shown))
        }))
    })))
}
