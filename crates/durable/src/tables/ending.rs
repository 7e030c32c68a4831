//! The end of an attempt, and what follows it.

use super::{Attempt, Row, Tables, forget, place};
use crate::id::{TimerId, millis};
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
    ends.into_iter().map(|ended| settle_one(tables, owner, ended)).collect()
}

fn settle_one<T: Tables>(tables: &mut T, owner: Owner, ended: Ended) -> Result<Settled, T::Error> {
    let Ended { timer, attempt, series: planned, end } = ended;
    let at = timer.place();
    // The fence: id, epoch and attempt.
    let begun = tables.set_attempt(at, None)?;
    if begun != Some(Attempt { epoch: owner.epoch, number: attempt }) {
        tables.set_attempt(at, begun)?;
        return Ok(Settled::Lost);
    }
    let Some(mut row) = tables.take(at)? else { return Ok(Settled::Lost) };
    if row.id != timer.id {
        tables.put(at, &row)?;
        tables.set_attempt(at, begun)?;
        return Ok(Settled::Lost);
    }
    let is_planned = match (&row.series, &planned) {
        (Some(series), Some(planned)) => series.has_the_rule_of(planned),
        (Some(_), None) => false,
        (None, _) => true,
    };
    // Also where nothing was to follow: a rule that is over, or could not be read, says nothing about the new one.
    if let (End::Done { .. } | End::Bury { .. }, Some(series), false, false) =
        (&end, &row.series, is_planned, row.ending)
    {
        let series = series.clone();
        tables.put(at, &row)?;
        tables.set_attempt(at, begun)?;
        return Ok(Settled::Replanned(series));
    }
    let next = match end {
        End::Done { next } => {
            forget(tables, at, &row)?;
            goes_on(tables, row, next)?
        }
        End::Bury { reason, next } => {
            row.attempts = attempt;
            note(&mut row, attempt, reason.clone());
            forget(tables, at, &row)?;
            tables.bury(row.id, &row, &reason)?;
            row.failures.clear();
            goes_on(tables, row, next)?
        }
        End::Again { due, error, counts } => {
            if row.ending {
                forget(tables, at, &row)?;
                return Ok(Settled::Done(None));
            }
            if let Some(error) = error {
                note(&mut row, attempt, error);
            }
            row.attempts = if counts { attempt } else { attempt - 1 };
            if let (Some(_), Some(planned), true) = (&row.series, planned, is_planned) {
                row.series = Some(planned);
            }
            let near = Near { due_ms: millis(due), id: row.id };
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
