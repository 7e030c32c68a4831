//! Saving, and what becomes of a timer that has the key.

use super::{Row, Tables, forget, place, running};
use crate::id::Place;
use crate::store::{Near, NewTimer, Saved};

pub(crate) fn save<T: Tables>(tables: &mut T, timer: NewTimer) -> Result<Saved, T::Error> {
    let NewTimer { id, kind, payload, key, series, replaces, is_over } = timer;
    let new =
        Row { id, kind, payload, key, series, attempts: 0, failures: Vec::new(), ending: false, version: 0 };
    let saved = match holder(tables, &new)? {
        Some((_, old)) if !replaces => Saved::KeyTaken(old.id),
        Some((at, old)) => take_key(tables, at, old, &new, is_over)?,
        None if is_over => Saved::Over { dropped: None },
        None => Saved::Stored(id),
    };
    if let Saved::Stored(_) | Saved::Replaced { .. } | Saved::Follows { .. } = saved {
        place(tables, id.into(), &new, None)?;
    }
    Ok(saved)
}

/// The timer that has the key. One that was cancelled, and given back before its handler was called, is gone.
fn holder<T: Tables>(tables: &mut T, new: &Row) -> Result<Option<(Place, Row)>, T::Error> {
    let Some(key) = &new.key else { return Ok(None) };
    let Some(at) = tables.keyed(key)? else { return Ok(None) };
    // The key may lead nowhere, where the timer was damaged.
    let Some(old) = tables.row(at)? else { return Ok(None) };
    if old.ending && tables.attempt(at)?.is_none() {
        tables.take(at)?;
        forget(tables, at, &old)?;
        return Ok(None);
    }
    Ok(Some((at, old)))
}

/// What becomes of a timer that has the key, and of the new one, which is yet to be stored.
fn take_key<T: Tables>(
    tables: &mut T,
    at: Place,
    mut old: Row,
    new: &Row,
    is_over: bool,
) -> Result<Saved, T::Error> {
    let (id, begun) = (new.id, old.id);
    let series = old.series.as_ref().zip(new.series.as_ref());
    let has_same_rule = !old.ending && series.is_some_and(|(old, new)| old.rule == new.rule);
    let has_same_policy = series.is_some_and(|(old, new)| old.missed == new.missed);
    if has_same_rule && has_same_policy && old.payload == new.payload && old.kind == new.kind {
        return Ok(Saved::Kept(old.id));
    }
    let (are_series, is_running) = (series.is_some(), running(tables, at, &mut old)?.is_some());
    if has_same_rule || (is_running && are_series) {
        (old.kind, old.payload, old.ending) = (new.kind.clone(), new.payload.clone(), false);
        match (&mut old.series, &new.series) {
            // It stands where it stood.
            (Some(old), Some(new)) if has_same_rule => old.missed = new.missed,
            (old, new) => old.clone_from(new),
        }
        old.version = old.version.wrapping_add(1);
        tables.put(at, &old)?;
        return Ok(Saved::Updated(old.id));
    }
    if is_running && is_over {
        return Ok(Saved::Over { dropped: None });
    }
    if is_running {
        if let Some(key) = old.key.take() {
            tables.set_keyed(&key, None)?;
        }
        old.ending = true;
        old.version = old.version.wrapping_add(1);
        tables.put(at, &old)?;
        return Ok(Saved::Follows { id, begun });
    }
    tables.take(at)?;
    forget(tables, at, &old)?;
    let dropped = Near { due_ms: at.due_ms, id: begun };
    Ok(if is_over { Saved::Over { dropped: Some(dropped) } } else { Saved::Replaced { id, dropped } })
}
