//! The calls that change timers, each one statement: see `sql/1.sql` for what they mean.

use tokio_postgres::types::Type;

use super::PostgresError;
use super::connections::{Connections, Parameter};
use super::convert::{attempts, epoch, get, id, near, number, readable, shard, stored, text};
use crate::id::TimerId;
use crate::store::{Begun, Move, Near, NewTimer, Owner, Removal, Saved, State, Taken, ToBegin, Which};

/// Answers of functions that this version does not know.
pub(super) fn unknown(call: &str, answer: i32) -> PostgresError {
    PostgresError::Corrupt(format!("{call} was answered {answer}"))
}

/// Where timers of a batch stand, a column each.
#[derive(Default)]
pub(super) struct Places {
    dues: Vec<i64>,
    numbers: Vec<i64>,
    firsts: Vec<i64>,
}

impl Places {
    pub(super) fn of(nears: impl Iterator<Item = Near>) -> Result<Self, PostgresError> {
        let mut places = Self::default();
        for near in nears {
            places.dues.push(near.due_ms);
            places.numbers.push(number(near.id)?);
            places.firsts.push(near.id.due_ms);
        }
        Ok(places)
    }

    pub(super) fn parameters(&self) -> [Parameter<'_>; 3] {
        [(&self.dues, Type::INT8_ARRAY), (&self.numbers, Type::INT8_ARRAY), (&self.firsts, Type::INT8_ARRAY)]
    }
}

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
        text("a key", key.as_deref().unwrap_or_default())?;
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

/// What became of those that were to be begun, and, if some stand there that somebody has locked, when the first is due.
pub(super) async fn begin(
    connections: &Connections,
    owner: Owner,
    ask: &ToBegin,
    valid_until_us: Option<i64>,
) -> Result<(Vec<Begun>, Option<i64>), PostgresError> {
    let ToBegin { timers, kinds } = ask;
    let mut answers = vec![Begun::Gone; timers.len()];
    let epoch = epoch(owner.epoch);
    let kinds: Vec<&str> = kinds.iter().map(String::as_str).collect();
    let places = Places::of(timers.iter().copied())?;
    let [dues, numbers, firsts] = places.parameters();
    let parameters = [
        (&epoch as _, Type::INT8),
        dues,
        numbers,
        firsts,
        (&kinds as _, Type::TEXT_ARRAY),
        (&valid_until_us as _, Type::INT8),
    ];
    let rows = connections
        .ask(
            "select * from timingwheel.begin_timers(timingwheel.in_time($1, $6), $2, $3, $4, $5)",
            &parameters,
        )
        .await?;
    for row in &rows {
        let n: i64 = get(row, "n")?;
        let Some(place) = usize::try_from(n - 1).ok().filter(|place| *place < timers.len()) else { continue };
        let attempt = attempts(get(row, "attempts")?);
        let state = State::Begun { epoch: owner.epoch, attempt };
        answers[place] = Begun::Yours(Box::new(stored(row, timers[place], state)?));
    }
    if rows.len() == timers.len() {
        return Ok((answers, None));
    }
    let told =
        connections.ask("select * from timingwheel.why_not($1, $2, $3, $4, $5)", &parameters[..5]).await?;
    let Some(row) = told.first() else { return Err(PostgresError::Corrupt("no answer".into())) };
    if !get::<bool>(row, "alive")? {
        // What was begun before it was one no more is its follower's now.
        answers.fill(Begun::Lost);
        return Ok((answers, None));
    }
    Ok((answers, get(row, "locked")?))
}

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

/// Whether two of them are one: then they have to be begun one after the other.
pub(super) fn are_different(timers: &[Near]) -> bool {
    let mut seen = std::collections::HashSet::with_capacity(timers.len());
    timers.iter().all(|timer| seen.insert(*timer))
}

/// Which shards there are among timers, as bits.
pub(super) fn shards(shards: &[i16]) -> u64 {
    shards.iter().fold(0, |mask, shard| mask | 1 << (shard.unsigned_abs() & 63))
}

/// Whether a timer is in one of these.
pub(super) const fn is_among(mask: u64, near: Near) -> bool {
    mask >> shard(near.id.unique) & 1 == 1
}
