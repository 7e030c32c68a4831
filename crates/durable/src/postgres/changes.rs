//! The calls that save, cancel and move timers, and retry or delete buried ones. Each is one statement, whose meaning is in
//! `sql/tables_and_functions_1.sql`.

use tokio_postgres::types::Type;

use super::connections::{Connections, Parameter};
use super::convert::{attempts, column, columns_of, get, id, near, number, readable, standing, unknown};
use super::{PostgresError, Result, only};
use crate::id::TimerId;
use crate::store::{Move, Near, NewTimer, Removal, Saved, Stored, Taken, Which};

/// First due, number, key.
pub(super) type Name = (Option<i64>, Option<i64>, Option<String>);

/// A timer's name as three parameters, of which one or two are null.
pub(super) fn name(which: &Which) -> Result<Name> {
    Ok(match which {
        Which::Id(id) => (Some(id.due_ms), Some(number(*id)?), None),
        Which::Key(key) => (None, None, Some(readable(key))),
    })
}

/// Saves timers that the store has [checked](crate::store::Store::check).
pub(super) async fn save(connections: &Connections, timers: &[NewTimer]) -> Result<Vec<Saved>> {
    let mut answers: Vec<Saved> = timers.iter().map(|timer| Saved::Stored(timer.id)).collect();
    if timers.is_empty() {
        return Ok(answers);
    }
    // Those without a key come first, and are stored at once. All instances sort the others the same way, so that no two wait for
    // each other. Timers of one key keep their order.
    let mut all: Vec<(usize, &NewTimer)> = timers.iter().enumerate().collect();
    all.sort_by(|(_, one), (_, two)| one.key.cmp(&two.key));
    let plain = all.partition_point(|(_, timer)| timer.key.is_none());
    let numbers: Result<Vec<i64>, _> = all.iter().map(|(_, timer)| number(timer.id)).collect();
    let [rules, missed, standings] = columns_of(all.iter().map(|(_, timer)| timer.series.as_ref()));
    let parameters: [Parameter<'_>; 11] = [
        (&column(&all, |(_, timer)| timer.id.due_ms), Type::INT8_ARRAY),
        (&numbers?, Type::INT8_ARRAY),
        (&column(&all, |(_, timer)| timer.kind.as_str()), Type::TEXT_ARRAY),
        (&column(&all, |(_, timer)| timer.payload.as_slice()), Type::BYTEA_ARRAY),
        (&rules, Type::TEXT_ARRAY),
        (&missed, Type::TEXT_ARRAY),
        (&standings, Type::TEXT_ARRAY),
        (&column(&all, |(_, timer)| timer.key.as_deref()), Type::TEXT_ARRAY),
        (&column(&all, |(_, timer)| timer.replaces), Type::BOOL_ARRAY),
        (&column(&all, |(_, timer)| timer.is_over), Type::BOOL_ARRAY),
        (&i32::try_from(plain).unwrap_or(i32::MAX), Type::INT4),
    ];
    let statement = "select 0::bigint as n, 0 as answer, null::bigint as due, null::bigint as first, \
            null::bigint as num \
        from timingwheel.save($1[:$11], $2[:$11], $3[:$11], $4[:$11], $5[:$11], $6[:$11], $7[:$11]) \
        union all \
        select a.n, s.answer, s.due, s.first, s.num \
        from unnest($1[$11 + 1:], $2[$11 + 1:], $3[$11 + 1:], $4[$11 + 1:], $5[$11 + 1:], $6[$11 + 1:], \
            $7[$11 + 1:], $8[$11 + 1:], $9[$11 + 1:], $10[$11 + 1:]) with ordinality as a \
            (due, number, kind, payload, rule, missed, standing, key, replaces, over, n) \
        cross join lateral timingwheel.save_one( \
            a.due, a.number, a.kind, a.payload, a.key, a.rule, a.missed, a.standing, a.replaces, a.over) s";
    for row in &connections.ask(statement, &parameters).await? {
        let n: i64 = get(row, "n")?;
        let Some((place, timer)) = usize::try_from(n - 1).ok().and_then(|n| all.get(plain + n)) else {
            continue;
        };
        answers[*place] = saved(row, timer.id)?;
    }
    Ok(answers)
}

/// The answer of `save_one` for the timer of this id.
pub(super) fn saved(row: &tokio_postgres::Row, id: TimerId) -> Result<Saved> {
    let answer: i32 = get(row, "answer")?;
    let other = || Ok::<_, PostgresError>(near(get(row, "due")?, get(row, "first")?, get(row, "num")?));
    Ok(match answer {
        0 => Saved::Stored(id),
        1 => Saved::KeyTaken(other()?.id),
        2 => Saved::Replaced { id, dropped: other()? },
        3 => Saved::Kept(other()?.id),
        4 => Saved::Updated(other()?.id),
        5 => Saved::Follows { id, begun: other()?.id },
        6 => Saved::Over { dropped: None },
        7 => Saved::Over { dropped: Some(other()?) },
        other => return Err(unknown("save", other)),
    })
}

/// A statement whose parameters are a [`name`].
pub(super) const CANCEL: &str = "select * from timingwheel.cancel_one($1, $2, $3)";

pub(super) async fn cancel(connections: &Connections, which: &Which) -> Result<Removal> {
    let (first, number, key) = name(which)?;
    let parameters = [(&first as _, Type::INT8), (&number as _, Type::INT8), (&key as _, Type::TEXT)];
    removal(only(&connections.ask(CANCEL, &parameters).await?)?)
}

pub(super) fn removal(row: &tokio_postgres::Row) -> Result<Removal> {
    let answer: i32 = get(row, "answer")?;
    if answer == 0 {
        return Ok(Removal::NotFound);
    }
    let timer = near(get(row, "due")?, get(row, "first")?, get(row, "num")?);
    match answer {
        1 => Ok(Removal::Removed(timer)),
        2 => Ok(Removal::Running(timer.id, attempts(get(row, "attempt")?))),
        other => Err(unknown("cancel", other)),
    }
}

pub(super) async fn reschedule(connections: &Connections, which: &Which, due_ms: i64) -> Result<Move> {
    let (first, number, key) = name(which)?;
    let rows = connections
        .ask(
            "select * from timingwheel.move_one($1, $2, $3, $4)",
            &[(&first, Type::INT8), (&number, Type::INT8), (&key, Type::TEXT), (&due_ms, Type::INT8)],
        )
        .await?;
    let Some(row) = rows.first() else { return Ok(Move::NotFound) };
    let answer: i32 = get(row, "answer")?;
    if answer == 0 {
        return Ok(Move::NotFound);
    }
    let from = near(get(row, "was")?, get(row, "first")?, get(row, "num")?);
    match answer {
        1 => Ok(Move::Moved { from, to: Near { due_ms, id: from.id } }),
        2 => Ok(Move::Running(from.id, attempts(get(row, "attempt")?))),
        other => Err(unknown("reschedule", other)),
    }
}

pub(super) async fn unbury(connections: &Connections, timer: TimerId, due: Option<i64>) -> Result<Taken> {
    let number = number(timer)?;
    let parameters = [(&timer.due_ms as _, Type::INT8), (&number as _, Type::INT8), (&due as _, Type::INT8)];
    let rows = connections.ask("select * from timingwheel.unbury_one($1, $2, $3)", &parameters).await?;
    let row = only(&rows)?;
    Ok(match (get::<i32>(row, "answer")?, due) {
        (0, _) => Taken::NotFound,
        (1, Some(due_ms)) => Taken::Stored(Near { due_ms, id: timer }),
        (2, _) => Taken::Deleted,
        (3, _) => Taken::KeyTaken(id(get(row, "first")?, get(row, "num")?)),
        (other, _) => return Err(unknown("unbury", other)),
    })
}

pub(super) async fn find(connections: &Connections, which: &Which) -> Result<Option<Stored>> {
    let (first, number, key) = name(which)?;
    // The SQL function `locked` finds a timer in the same way.
    let by_name = "select * from timingwheel.timers where shard = ($2 & 63)::smallint and number = $2 \
        and first_ms = $1 and (due_ms = $1 or due_ms <> first_ms) and $3::text is null";
    let by_key =
        "select * from timingwheel.timers where key = $3 and $1::bigint is null and $2::bigint is null";
    let statement = if key.is_some() { by_key } else { by_name };
    let parameters = [(&first as _, Type::INT8), (&number as _, Type::INT8), (&key as _, Type::TEXT)];
    connections.ask(statement, &parameters).await?.first().map(standing).transpose()
}
