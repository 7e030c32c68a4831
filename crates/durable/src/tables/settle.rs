//! The end of an attempt, and what follows it.

use super::{Attempt, Row, Tables, forget, place, stored, together};
use crate::id::Place;
use crate::store::{Change, Ended, Failure, Owner, Put, Settled};

/// Of how many attempts the errors are kept.
const KEPT_FAILURES: usize = 10;

pub(crate) fn settle<T: Tables>(
    tables: &mut T,
    owner: Owner,
    ends: Vec<Ended>,
) -> Result<Vec<Settled>, T::Error> {
    // An owner that was followed is none, also where nobody began it anew.
    if tables.epoch()? != owner.epoch {
        return Ok(vec![Settled::Lost; ends.len()]);
    }
    let mut answers = vec![Settled::Gone; ends.len()];
    let mut first = 0;
    // What goes on is put where another may stand, so its order among the others counts. What is over changes its own place
    // alone.
    for run in ends.chunk_by(|one, next| is_over(one) && is_over(next)) {
        for together in together(run, |ended| ended.timer.place()) {
            let places: Vec<Place> = together.iter().map(|index| run[*index].timer.place()).collect();
            let begun = tables.take_attempts(&places)?;
            let mut ready = Vec::with_capacity(together.len());
            for ((index, at), begun) in together.into_iter().zip(places).zip(begun) {
                // The fence: epoch and attempt here, id and version below.
                let attempt = Attempt { epoch: owner.epoch, number: run[index].attempt };
                if begun.map_or(attempt.number == 0, |begun| begun == attempt) {
                    ready.push((index, at, begun));
                } else if begun.is_some() {
                    tables.set_attempt(at, begun)?;
                }
            }
            let places: Vec<Place> = ready.iter().map(|(_, at, _)| *at).collect();
            // An id that stands elsewhere may not be that of the row, which is put back then. So is one of another version.
            let are_over = ready.iter().all(|(index, at, begun)| {
                let ended = &run[*index];
                is_over(ended) && ended.timer.id.place() == *at && ended.version == 0 && begun.is_some()
            });
            let rows = if are_over { tables.take_over(&places)? } else { tables.take_all(&places)? };
            for ((index, _, begun), row) in ready.into_iter().zip(rows) {
                if let Some(row) = row {
                    answers[first + index] = settle_one(tables, run[index].clone(), begun, row)?;
                }
            }
        }
        first += run.len();
    }
    Ok(answers)
}

/// Whether nothing follows this end.
fn is_over(ended: &Ended) -> bool {
    ended.change == Change::Delete
}

/// The attempt and the row were taken from their place.
fn settle_one<T: Tables>(
    tables: &mut T,
    ended: Ended,
    begun: Option<Attempt>,
    mut row: Row,
) -> Result<Settled, T::Error> {
    let Ended { timer, attempt, version, change } = ended;
    let at = timer.place();
    // A pending run that is planned anew has never begun.
    let is_as_it_was = row.id == timer.id && (begun.is_some() || row.attempts == 0);
    if !is_as_it_was || row.version != version {
        tables.put(at, &row)?;
        tables.set_attempt(at, begun)?;
        return Ok(if is_as_it_was {
            Settled::Changed(Box::new(stored(at, row, begun)))
        } else {
            Settled::Gone
        });
    }
    match change {
        Change::Delete => forget(tables, at, &row)?,
        Change::Put(put) => put_back(tables, at, row, attempt, put)?,
        Change::Bury { reason, next } => {
            row.attempts = attempt;
            note(&mut row, attempt, reason.clone());
            let mut buried = Row { version: 0, ..row.clone() };
            if std::mem::take(&mut buried.ending) {
                // Nothing follows it, also if it is revived.
                buried.series = None;
            }
            forget(tables, at, &row)?;
            tables.bury(row.id, &buried, &reason)?;
            if let Some(next) = next {
                put_back(tables, at, row, attempt, next)?;
            }
        }
    }
    Ok(Settled::Done)
}

/// What the row was taken from its place for.
fn put_back<T: Tables>(
    tables: &mut T,
    at: Place,
    mut row: Row,
    attempt: u32,
    put: Put,
) -> Result<(), T::Error> {
    let Put { timer, series, attempts, error } = put;
    (row.series, row.attempts) = (series, attempts);
    if timer.id == row.id {
        if let Some(error) = error {
            note(&mut row, attempt, error);
        }
        return place(tables, timer, &row, Some(at));
    }
    forget(tables, at, &row)?;
    row.id = timer.id;
    row.failures.clear();
    place(tables, timer, &row, None)
}

fn note(row: &mut Row, attempt: u32, error: String) {
    row.failures.push(Failure { attempt, error });
    let too_many = row.failures.len().saturating_sub(KEPT_FAILURES);
    row.failures.drain(..too_many);
}
