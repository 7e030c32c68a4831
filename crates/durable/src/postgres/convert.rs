//! Timers as the database has them.

use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use super::PostgresError;
use crate::id::{Place, TimerId};
use crate::store::{Failure, Near, Series, SeriesError, State, Stored};

/// How many shards there are: a part of the format.
pub(super) const SHARDS: u64 = 64;

/// The shard of a timer: the last bits of its number.
pub(super) const fn shard(unique: u64) -> u64 {
    unique % SHARDS
}

/// A number, which the database holds with a sign. Numbers of this store's own have 63 bits.
pub(super) fn number(id: TimerId) -> Result<i64, PostgresError> {
    let told = || PostgresError::Text(format!("the number of a timer must be below 2^63, got {}", id.unique));
    i64::try_from(id.unique).map_err(|_| told())
}

/// For comparisons: what no timer has is as good as the last that one may have.
pub(super) fn last_number(place: Place) -> i64 {
    i64::try_from(place.unique).unwrap_or(i64::MAX)
}

pub(super) fn epoch(epoch: u64) -> i64 {
    // Epochs come from a sequence of the database.
    i64::try_from(epoch).unwrap_or(i64::MAX)
}

pub(super) fn id(first: i64, number: i64) -> TimerId {
    TimerId { due_ms: first, unique: number.cast_unsigned() }
}

pub(super) fn near(due_ms: i64, first: i64, number: i64) -> Near {
    Near { due_ms, id: id(first, number) }
}

pub(super) fn get<'r, T: FromSql<'r>>(row: &'r Row, name: &str) -> Result<T, PostgresError> {
    row.try_get(name).map_err(PostgresError::Client)
}

/// A text as the database takes it.
///
/// # Errors
/// If it has a character of zero.
pub(super) fn text(what: &str, text: &str) -> Result<(), PostgresError> {
    if text.contains('\0') {
        return Err(PostgresError::Text(format!("{what} must have no character of zero, got {text:?}")));
    }
    Ok(())
}

/// How many bytes a key may have: far below what an entry of an index may.
const LONGEST_KEY: usize = 1_024;

/// A key as the database takes it.
///
/// # Errors
/// If it has a character of zero, or is too long for the index.
pub(super) fn key(key: Option<&str>) -> Result<(), PostgresError> {
    let key = key.unwrap_or_default();
    text("a key", key)?;
    if key.len() > LONGEST_KEY {
        let told = format!("a key must have at most {LONGEST_KEY} bytes, got {}", key.len());
        return Err(PostgresError::Text(told));
    }
    Ok(())
}

/// What is for people to read is changed instead.
pub(super) fn readable(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// The rule that a series has by now.
pub(super) fn rule(row: &Row) -> Result<Series, PostgresError> {
    read(get(row, "rule")?)
}

fn read(text: &str) -> Result<Series, PostgresError> {
    text.parse().map_err(|error: SeriesError| PostgresError::Corrupt(error.to_string()))
}

/// The rest of a row, whatever its state is.
pub(super) fn stored(row: &Row, timer: Near, state: State) -> Result<Stored, PostgresError> {
    let series = get::<Option<&str>>(row, "series")?.map(read).transpose()?;
    let failed: Vec<i32> = get::<Option<_>>(row, "failed")?.unwrap_or_default();
    let errors: Vec<String> = get::<Option<_>>(row, "errors")?.unwrap_or_default();
    let failures = failed.into_iter().zip(errors);
    Ok(Stored {
        timer,
        kind: get(row, "kind")?,
        payload: get(row, "payload")?,
        key: get(row, "key")?,
        series,
        attempts: attempts(get(row, "attempts")?),
        failures: failures.map(|(attempt, error)| Failure { attempt: attempts(attempt), error }).collect(),
        ending: get(row, "ending")?,
        state,
    })
}

/// The database counts up from 0.
pub(super) fn attempts(attempts: i32) -> u32 {
    u32::try_from(attempts).unwrap_or(0)
}
