//! Saving, and what a taken key does to it.

use super::{Row, Tables, forget, place, running};
use crate::store::{Near, NewTimer, Saved};

pub(crate) fn save<T: Tables>(tables: &mut T, timer: NewTimer) -> Result<Saved, T::Error> {
    let NewTimer { id, kind, payload, key, series, replaces } = timer;
    let row = Row { id, kind, payload, key, series, attempts: 0, failures: Vec::new(), ending: false };
    let holder = match &row.key {
        Some(key) => tables.keyed(key)?,
        None => None,
    };
    let Some(at) = holder else {
        place(tables, Near::from(id), &row, None)?;
        return Ok(Saved::Stored);
    };
    let Some(mut old) = tables.row(at)? else {
        // The key led nowhere.
        place(tables, Near::from(id), &row, None)?;
        return Ok(Saved::Stored);
    };
    if !replaces {
        return Ok(Saved::KeyTaken(old.id));
    }
    let is_same_series = match (&old.series, &row.series) {
        (Some(old), Some(new)) => old.has_the_rule_of(new),
        _ => false,
    };
    let is_same = is_same_series && old.payload == row.payload && old.kind == row.kind && !old.ending;
    if is_same {
        return Ok(Saved::Kept(old.id));
    }
    if running(tables, at, &mut old)?.is_some() {
        let (Some(_), Some(series)) = (&old.series, row.series) else { return Ok(Saved::KeyTaken(old.id)) };
        let id = old.id;
        (old.kind, old.payload, old.series, old.ending) = (row.kind, row.payload, Some(series), false);
        tables.put(at, &old)?;
        return Ok(Saved::Updated(id));
    }
    tables.take(at)?;
    forget(tables, at, &old)?;
    place(tables, Near::from(id), &row, None)?;
    Ok(Saved::Replaced(Near { due_ms: at.due_ms, id: old.id }))
}
