//! The calls that cancel and move timers, and take them out of those that are put aside.

use tokio_postgres::types::Type;

use super::PostgresError;
use super::batch::{Places, unknown};
use super::connections::Connections;
use super::convert::{attempts, get, id, near, number, readable};
use crate::id::TimerId;
use crate::store::{Move, Near, Removal, Taken, Which};

/// First due, number, key.
pub(super) type Name = (Option<i64>, Option<i64>, Option<String>);

/// A timer's name as three parameters, of which one or two are null.
pub(super) fn name(which: &Which) -> Result<Name, PostgresError> {
    Ok(match which {
        Which::Id(id) => (Some(id.due_ms), Some(number(*id)?), None),
        Which::Key(key) => (None, None, Some(readable(key))),
    })
}

pub(super) async fn cancel(
    connections: &Connections,
    which: Vec<Which>,
) -> Result<Vec<Removal>, PostgresError> {
    let (mut firsts, mut numbers, mut keys) = (Vec::new(), Vec::new(), Vec::new());
    for which in &which {
        let (first, number, key) = name(which)?;
        firsts.push(first);
        numbers.push(number);
        keys.push(key);
    }
    let mut answers = vec![Removal::NotFound; which.len()];
    if answers.is_empty() {
        return Ok(answers);
    }
    let rows = connections
        .ask(
            "select a.n, c.* from unnest($1, $2, $3) with ordinality as a (first, number, key, n) \
             cross join lateral timingwheel.cancel_one(a.first, a.number, a.key) c",
            &[(&firsts, Type::INT8_ARRAY), (&numbers, Type::INT8_ARRAY), (&keys, Type::TEXT_ARRAY)],
        )
        .await?;
    for row in &rows {
        let place = usize::try_from(get::<i64>(row, "n")? - 1).unwrap_or(usize::MAX);
        if let Some(answer) = answers.get_mut(place) {
            *answer = removal(row)?;
        }
    }
    Ok(answers)
}

pub(super) fn removal(row: &tokio_postgres::Row) -> Result<Removal, PostgresError> {
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

pub(super) async fn reschedule(
    connections: &Connections,
    which: &Which,
    due_ms: i64,
) -> Result<Move, PostgresError> {
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

pub(super) async fn unbury(
    connections: &Connections,
    ids: Vec<TimerId>,
    due: Option<i64>,
) -> Result<Vec<Taken>, PostgresError> {
    let places = Places::of(ids.iter().copied().map(Near::from))?;
    let [_, numbers, firsts] = places.parameters();
    let rows = connections
        .ask(
            "select a.n, u.* from unnest($1, $2) with ordinality as a (first, number, n) \
             cross join lateral timingwheel.unbury_one(a.first, a.number, $3) u",
            &[firsts, numbers, (&due, Type::INT8)],
        )
        .await?;
    let mut answers = vec![Taken::NotFound; ids.len()];
    for row in &rows {
        let place = usize::try_from(get::<i64>(row, "n")? - 1).unwrap_or(usize::MAX);
        let Some(answer) = answers.get_mut(place) else { continue };
        *answer = match (get::<i32>(row, "answer")?, due) {
            (0, _) => Taken::NotFound,
            (1, Some(due_ms)) => Taken::Stored(Near { due_ms, id: ids[place] }),
            (2, _) => Taken::Deleted,
            (3, _) => Taken::KeyTaken(id(get(row, "first")?, get(row, "num")?)),
            (other, _) => return Err(unknown("unbury", other)),
        };
    }
    Ok(answers)
}
