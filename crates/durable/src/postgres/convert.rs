//! Converts timers to parameters, and rows to timers.

use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use super::{PostgresError, Result};
use crate::id::{Place, TimerId, timestamp};
use crate::store::{Buried, Failure, Near, Series, State, Stored, Times};

/// A number with the sign of the database. An owner's have 62 bits, and a sequence's 63, so none is negative.
pub(super) const fn number(id: TimerId) -> i64 {
    id.unique.cast_signed()
}

/// For comparisons: a number that is too large for the database is treated as the largest.
pub(super) fn last_number(place: Place) -> i64 {
    i64::try_from(place.unique).unwrap_or(i64::MAX)
}

pub(super) fn id(first: i64, number: i64) -> TimerId {
    TimerId { due_ms: first, unique: number.cast_unsigned() }
}

pub(super) fn near(due_ms: i64, first: i64, number: i64) -> Near {
    Near { due_ms, id: id(first, number) }
}

/// The timer that an answer of a function names.
pub(super) fn named(row: &Row) -> Result<Near> {
    Ok(near(get(row, "due")?, get(row, "first")?, get(row, "num")?))
}

pub(super) fn get<'r, T: FromSql<'r>>(row: &'r Row, name: &str) -> Result<T> {
    row.try_get(name).map_err(PostgresError::Client)
}

/// A column that not every answer has.
fn if_there<'r, T: FromSql<'r>>(row: &'r Row, name: &str) -> Option<T> {
    row.try_get::<_, Option<T>>(name).ok().flatten()
}

/// A text for people. Its zeros are replaced, because the database cannot hold them.
pub(super) fn readable(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// One column of a batch.
pub(super) fn column<T, C>(all: &[T], of_one: impl Fn(&T) -> C) -> Vec<C> {
    all.iter().map(of_one).collect()
}

/// The three columns of a series: its rule, its policy, and where it stands.
pub(super) fn texts(series: Option<&Series>) -> [Option<String>; 3] {
    let Some(series) = series else { return [None, None, None] };
    [series.rule.clone(), series.missed.to_string(), series.standing()].map(Some)
}

/// The columns of a batch of rows.
pub(super) fn columns<T, const N: usize>(rows: impl Iterator<Item = [T; N]>) -> [Vec<T>; N] {
    let mut columns = [const { Vec::new() }; N];
    for row in rows {
        columns.iter_mut().zip(row).for_each(|(column, of_row)| column.push(of_row));
    }
    columns
}

fn series(row: &Row) -> Result<Option<Series>> {
    let Some(rule) = get::<Option<String>>(row, "rule")? else { return Ok(None) };
    let missed = get::<Option<&str>>(row, "missed")?.unwrap_or_default();
    let standing = get::<Option<&str>>(row, "standing")?.unwrap_or_default();
    Series::from_texts(rule, missed, standing).map(Some).map_err(PostgresError::Corrupt)
}

/// A timer of a row. Place and state are known.
pub(super) fn stored(row: &Row, timer: Near, state: State) -> Result<Stored> {
    let is_buried = matches!(state, State::Buried(_));
    let failed: Vec<i32> = get::<Option<_>>(row, "failed")?.unwrap_or_default();
    let errors: Vec<String> = get::<Option<_>>(row, "errors")?.unwrap_or_default();
    let failed_ms: Vec<Option<i64>> = if_there(row, "failed_ms").unwrap_or_default();
    let ats = failed_ms.into_iter().chain(std::iter::repeat(None));
    let failures = failed.into_iter().zip(errors).zip(ats);
    let time = |name| if_there::<i64>(row, name).map(timestamp);
    let has_begun = matches!(state, State::Begun { .. });
    let times = Times {
        made: time("made_ms"),
        begun: time("begun_ms").filter(|_| has_begun),
        buried: time("buried_ms"),
        ended: time("ended_ms"),
    };
    Ok(Stored {
        timer,
        kind: get(row, "kind")?,
        payload: get(row, "payload")?,
        key: get(row, "key")?,
        series: series(row)?,
        attempts: attempts(get(row, "attempts")?),
        crashes: attempts(get(row, "crashes")?),
        failures: failures
            .map(|((attempt, error), at)| Failure {
                attempt: attempts(attempt),
                error,
                at: at.map(timestamp),
            })
            .collect(),
        // Nobody changes a buried timer.
        cancelled: if is_buried { false } else { get(row, "ending")? },
        version: if is_buried { 0 } else { get::<i32>(row, "version")?.cast_unsigned() },
        state,
        times,
    })
}

/// The database counts up from 0.
pub(super) fn attempts(attempts: i32) -> u32 {
    u32::try_from(attempts).unwrap_or(0)
}

/// The error for an answer that this version does not know.
pub(super) fn unknown(call: &str, answer: i32) -> PostgresError {
    PostgresError::Corrupt(format!("{call} was answered {answer}"))
}

/// The due times, numbers and first due times of a batch of timers.
pub(super) fn places(nears: impl Iterator<Item = Near>) -> [Vec<i64>; 3] {
    columns(nears.map(|near| [near.due_ms, number(near.id), near.id.due_ms]))
}

/// A row of the timers.
pub(super) fn standing(row: &Row) -> Result<Stored> {
    let timer = near(get(row, "due_ms")?, get(row, "first_ms")?, get(row, "number")?);
    let state = state(row, get(row, "begun_by")?)?;
    stored(row, timer, state)
}

/// A row of the buried ones.
pub(super) fn buried(row: &Row) -> Result<Stored> {
    let id = id(get(row, "first_ms")?, get(row, "number")?);
    stored(row, id.into(), State::Buried(Buried { reason: get(row, "reason")? }))
}

/// A row of the ended ones.
pub(super) fn ended(row: &Row) -> Result<Stored> {
    let timer = near(get(row, "was_due_ms")?, get(row, "first_ms")?, get(row, "number")?);
    let (reason, begun_by): (Option<String>, Option<i64>) = (get(row, "reason")?, get(row, "begun_by")?);
    let state = match (reason, begun_by) {
        (Some(reason), _) => State::Buried(Buried { reason }),
        (None, begun_by) => state(row, begun_by)?,
    };
    stored(row, timer, state)
}

fn state(row: &Row, begun_by: Option<i64>) -> Result<State> {
    let Some(epoch) = begun_by else { return Ok(State::Stored) };
    Ok(State::Begun { epoch: epoch.cast_unsigned(), attempt: attempts(get(row, "attempts")?) })
}
