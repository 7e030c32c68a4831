//! The end of an attempt, and what follows it.

use super::{Attempt, Row, Tables, forget, place, together};
use crate::id::{Place, TimerId, millis};
use crate::store::{End, Ended, Failure, Near, Next, Owner, Settled};

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
    let mut answers = vec![Settled::Lost; ends.len()];
    let mut first = 0;
    // What goes on is put where another may stand, so its order among the others counts. What is over changes its own place
    // alone.
    for run in ends.chunk_by(|one, next| is_over(one) && is_over(next)) {
        for together in together(run, |ended| ended.timer.place()) {
            let places: Vec<Place> = together.iter().map(|index| run[*index].timer.place()).collect();
            let begun = tables.take_attempts(&places)?;
            let mut ready = Vec::with_capacity(together.len());
            for ((index, at), begun) in together.into_iter().zip(places).zip(begun) {
                // The fence: epoch and attempt, and the id below.
                match begun {
                    Some(begun) if begun == (Attempt { epoch: owner.epoch, number: run[index].attempt }) => {
                        ready.push((index, at, begun));
                    }
                    Some(_) => drop(tables.set_attempt(at, begun)?),
                    None => {}
                }
            }
            let places: Vec<Place> = ready.iter().map(|(_, at, _)| *at).collect();
            // An id that stands elsewhere may not be that of the row, which is put back then.
            let are_unmoved = ready.iter().all(|(index, at, _)| run[*index].timer.id.place() == *at);
            let are_over = are_unmoved && ready.iter().all(|(index, ..)| is_over(&run[*index]));
            let rows = if are_over { tables.take_over(&places)? } else { tables.take_all(&places)? };
            for ((index, _, begun), row) in ready.into_iter().zip(rows) {
                if let Some(row) = row {
                    answers[first + index] = settle_one(tables, &run[index], begun, row)?;
                }
            }
        }
        first += run.len();
    }
    Ok(answers)
}

/// Whether nothing follows this end.
fn is_over(ended: &Ended) -> bool {
    matches!(ended.end, End::Done { next: None } | End::Cancelled)
}

/// The attempt and the row were taken from their place.
fn settle_one<T: Tables>(
    tables: &mut T,
    ended: &Ended,
    begun: Attempt,
    mut row: Row,
) -> Result<Settled, T::Error> {
    let Ended { timer, attempt, series: planned, end } = ended;
    let (at, attempt) = (timer.place(), *attempt);
    if row.id != timer.id {
        tables.put(at, &row)?;
        tables.set_attempt(at, Some(begun))?;
        return Ok(Settled::Lost);
    }
    let is_planned = match (&row.series, planned) {
        (Some(series), Some(planned)) => series.has_the_rule_of(planned),
        (Some(_), None) => false,
        (None, _) => true,
    };
    // Also where nothing was to follow: a rule that is over, or could not be read, says nothing about the new one.
    if let (End::Done { .. } | End::Bury { .. }, Some(series), false, false) =
        (end, &row.series, is_planned, row.ending)
    {
        let series = series.clone();
        tables.put(at, &row)?;
        tables.set_attempt(at, Some(begun))?;
        return Ok(Settled::Replanned(series));
    }
    let next = match end {
        End::Done { next } => {
            forget(tables, at, &row)?;
            goes_on(tables, row, next.clone())?
        }
        End::Bury { reason, next } => {
            row.attempts = attempt;
            note(&mut row, attempt, reason.clone());
            forget(tables, at, &row)?;
            tables.bury(row.id, &row, reason)?;
            row.failures.clear();
            goes_on(tables, row, next.clone())?
        }
        End::Again { due, error, counts } => {
            if row.ending {
                forget(tables, at, &row)?;
                return Ok(Settled::Done(None));
            }
            if let Some(error) = error {
                note(&mut row, attempt, error.clone());
            }
            row.attempts = if *counts { attempt } else { attempt - 1 };
            if let (Some(_), Some(planned), true) = (&row.series, planned, is_planned) {
                row.series = Some(planned.clone());
            }
            let near = Near { due_ms: millis(*due), id: row.id };
            place(tables, near, &row, Some(at))?;
            Some(near)
        }
        End::Cancelled => {
            forget(tables, at, &row)?;
            None
        }
    };
    Ok(Settled::Done(next))
}

/// The next occurrence of the series that this row was one of.
fn goes_on<T: Tables>(tables: &mut T, mut row: Row, next: Option<Next>) -> Result<Option<Near>, T::Error> {
    let Some(Next { due, series }) = next else { return Ok(None) };
    if row.ending {
        return Ok(None);
    }
    row.id = TimerId::new(due, row.id.unique);
    (row.series, row.attempts) = (Some(series), 0);
    row.failures.clear();
    let near = Near::from(row.id);
    place(tables, near, &row, None)?;
    Ok(Some(near))
}

fn note(row: &mut Row, attempt: u32, error: String) {
    row.failures.push(Failure { attempt, error });
    let too_many = row.failures.len().saturating_sub(KEPT_FAILURES);
    row.failures.drain(..too_many);
}
