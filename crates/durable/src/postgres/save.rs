//! The call that saves timers, one statement: see `sql/tables_and_functions_1.sql` for what it means.

use tokio_postgres::types::Type;

use super::batch::unknown;
use super::connections::Connections;
use super::convert::{get, near, number, text};
use super::{PostgresError, convert};
use crate::store::{NewTimer, Saved};

/// New timers, a column each.
#[derive(Default)]
struct Columns {
    places: Vec<usize>,
    dues: Vec<i64>,
    numbers: Vec<i64>,
    kinds: Vec<String>,
    payloads: Vec<Vec<u8>>,
    keys: Vec<Option<String>>,
    series: Vec<Option<String>>,
    replaces: Vec<bool>,
}

impl Columns {
    fn push(&mut self, place: usize, timer: NewTimer) -> Result<(), PostgresError> {
        let NewTimer { id, kind, payload, key, series, replaces } = timer;
        text("a kind", &kind)?;
        convert::key(key.as_deref())?;
        self.places.push(place);
        self.dues.push(id.due_ms);
        self.numbers.push(number(id)?);
        self.kinds.push(kind);
        self.payloads.push(payload);
        self.keys.push(key);
        self.series.push(series.map(|series| series.to_string()));
        self.replaces.push(replaces);
        Ok(())
    }
}

pub(super) async fn save(
    connections: &Connections,
    timers: Vec<NewTimer>,
) -> Result<Vec<Saved>, PostgresError> {
    let mut answers = vec![Saved::Stored; timers.len()];
    let mut keyed: Vec<(usize, NewTimer)> = Vec::new();
    let mut plain = Columns::default();
    for (place, timer) in timers.into_iter().enumerate() {
        if timer.key.is_some() { keyed.push((place, timer)) } else { plain.push(place, timer)? }
    }
    // In one order everywhere, so that no two wait for each other; those of one key in the order given.
    keyed.sort_by(|(_, one), (_, two)| one.key.cmp(&two.key));
    let mut columns = Columns::default();
    for (place, timer) in keyed {
        columns.push(place, timer)?;
    }
    if answers.is_empty() {
        return Ok(answers);
    }
    let statement = "select 0::bigint as n, 0 as answer, null::bigint as due, null::bigint as first, \
            null::bigint as num \
        from timingwheel.save($1, $2, $3, $4, $5) \
        union all \
        select a.n, s.answer, s.due, s.first, s.num \
        from unnest($6, $7, $8, $9, $10, $11, $12) \
            with ordinality as a (due, number, kind, payload, key, series, replaces, n) \
        cross join lateral timingwheel.save_one( \
            a.due, a.number, a.kind, a.payload, a.key, a.series, a.replaces) s";
    let rows = connections
        .ask(
            statement,
            &[
                (&plain.dues, Type::INT8_ARRAY),
                (&plain.numbers, Type::INT8_ARRAY),
                (&plain.kinds, Type::TEXT_ARRAY),
                (&plain.payloads, Type::BYTEA_ARRAY),
                (&plain.series, Type::TEXT_ARRAY),
                (&columns.dues, Type::INT8_ARRAY),
                (&columns.numbers, Type::INT8_ARRAY),
                (&columns.kinds, Type::TEXT_ARRAY),
                (&columns.payloads, Type::BYTEA_ARRAY),
                (&columns.keys, Type::TEXT_ARRAY),
                (&columns.series, Type::TEXT_ARRAY),
                (&columns.replaces, Type::BOOL_ARRAY),
            ],
        )
        .await?;
    for row in &rows {
        let n: i64 = get(row, "n")?;
        let Some(place) = usize::try_from(n - 1).ok().and_then(|n| columns.places.get(n)) else { continue };
        let answer: i32 = get(row, "answer")?;
        let told = || Ok::<_, PostgresError>((get(row, "due")?, get(row, "first")?, get(row, "num")?));
        answers[*place] = match answer {
            0 => Saved::Stored,
            1..=4 => {
                let (due, first, number) = told()?;
                let old = near(due, first, number);
                match answer {
                    1 => Saved::KeyTaken(old.id),
                    2 => Saved::Replaced(old),
                    3 => Saved::Kept(old.id),
                    _ => Saved::Updated(old.id),
                }
            }
            other => return Err(unknown("save", other)),
        };
    }
    Ok(answers)
}
