//! Acts on many timers, and pauses.

use jiff::Timestamp;

use super::{Tables, cancel, reschedule, unbury};
use crate::store::{Effects, Move, Paused, Picked, Removal, Taken, Which};

/// Makes timers due then, buried ones too. Without a time it cancels them, and deletes buried ones.
pub(crate) fn act<T: Tables>(
    tables: &mut T,
    picked: Vec<Picked>,
    due: Option<Timestamp>,
) -> Result<Effects, T::Error> {
    let mut effects = Effects::default();
    for Picked { id, number } in picked {
        let Some(due) = due else {
            match cancel(tables, Which::Id(id))? {
                Removal::Removed(near) => effects.gone.push(near),
                Removal::Running(..) => effects.running += 1,
                Removal::NotFound => {}
            }
            continue;
        };
        match reschedule(tables, Which::Id(id), due)? {
            Move::Moved { to, .. } => effects.stored.push(to),
            Move::Running(..) => effects.running += 1,
            Move::NotFound => match unbury(tables, id, Some(due), number)? {
                Taken::Stored(near) => effects.stored.push(near),
                Taken::KeyTaken(_) => effects.key_taken += 1,
                Taken::Deleted | Taken::NotFound => {}
            },
        }
    }
    Ok(effects)
}

/// Pauses or resumes a kind, if asked to, and answers which are paused.
pub(crate) fn pause<T: Tables>(tables: &mut T, change: Option<(String, bool)>) -> Result<Paused, T::Error> {
    if let Some((kind, is_paused)) = change {
        let paused = &mut tables.about_mut().paused;
        if is_paused {
            paused.insert(kind);
        } else {
            paused.remove(&kind);
        }
    }
    Ok(tables.about().paused.clone())
}
