//! The calls that save, cancel and move timers, retry or delete buried ones, begin timers and end attempts. Their meaning is in
//! `sql/functions.sql`: a begin and an end that are refused are refused there.

use std::collections::HashSet;

use tokio_postgres::types::Type;

use super::connections::{Connections, Parameter};
use super::convert::{
    Places, attempts, column, columns_of, get, id, near, number, readable, standing, stored, unknown,
};
use super::{Inner, PostgresError, Result, only};
use crate::id::TimerId;
use crate::store::{
    Begun, Change, Ended, Move, Near, NewTimer, Owner, Removal, Saved, Settled, State, Stored, Taken,
    ToBegin, Which,
};

/// First due, number, key.
pub(super) type Name = (Option<i64>, Option<i64>, Option<String>);

/// A timer's name as three parameters, of which one or two are null.
pub(super) fn name(which: &Which) -> Name {
    match which {
        Which::Id(id) => (Some(id.due_ms), Some(number(*id)), None),
        Which::Key(key) => (None, None, Some(readable(key))),
    }
}

/// Saves timers that the store has [checked](crate::store::Store::check), in one statement. If somebody holds one of their keys, a
/// batch fails soon as [locked](PostgresError::is_locked), and has done nothing; one timer alone waits.
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
    let [rules, missed, standings] = columns_of(all.iter().map(|(_, timer)| timer.series.as_ref()));
    let parameters: [Parameter<'_>; 11] = [
        (&column(&all, |(_, timer)| timer.id.due_ms), Type::INT8_ARRAY),
        (&column(&all, |(_, timer)| number(timer.id)), Type::INT8_ARRAY),
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
    let save_one = if timers.len() > 1 { "save_among_others" } else { "save_one" };
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
    let statement = statement.replace("save_one", save_one);
    for row in &connections.ask(&statement, &parameters).await? {
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
    let (first, number, key) = name(which);
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
    let (first, number, key) = name(which);
    let rows = connections
        .ask(
            "select * from timingwheel.move_one($1, $2, $3, $4)",
            &[(&first, Type::INT8), (&number, Type::INT8), (&key, Type::TEXT), (&due_ms, Type::INT8)],
        )
        .await?;
    rows.first().map_or(Ok(Move::NotFound), |row| moved(row, due_ms))
}

/// The answer of `move_one` for this due time.
pub(super) fn moved(row: &tokio_postgres::Row, due_ms: i64) -> Result<Move> {
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
    timer: TimerId,
    due: Option<i64>,
    new_number: u64,
) -> Result<Taken> {
    let (number, new_number) = (number(timer), new_number.cast_signed());
    let parameters = [
        (&timer.due_ms as _, Type::INT8),
        (&number as _, Type::INT8),
        (&due as _, Type::INT8),
        (&new_number as _, Type::INT8),
    ];
    let rows = connections.ask("select * from timingwheel.unbury_one($1, $2, $3, $4)", &parameters).await?;
    let row = only(&rows)?;
    Ok(match (get::<i32>(row, "answer")?, due) {
        (0, _) => Taken::NotFound,
        (1, Some(due_ms)) => Taken::Stored(near(due_ms, timer.due_ms, get(row, "num")?)),
        (2, _) => Taken::Deleted,
        (3, _) => Taken::KeyTaken(id(get(row, "first")?, get(row, "num")?)),
        (other, _) => return Err(unknown("unbury", other)),
    })
}

pub(super) async fn find(connections: &Connections, which: &Which) -> Result<Option<Stored>> {
    let (first, number, key) = name(which);
    // The SQL function `locked` finds a timer in the same way.
    let by_name = "select * from timingwheel.timers where shard = timingwheel.shard_of($2) and number = $2 \
        and first_ms = $1 and (due_ms = $1 or due_ms <> first_ms) and $3::text is null";
    let by_key =
        "select * from timingwheel.timers where key = $3 and $1::bigint is null and $2::bigint is null";
    let statement = if key.is_some() { by_key } else { by_name };
    let parameters = [(&first as _, Type::INT8), (&number as _, Type::INT8), (&key as _, Type::TEXT)];
    connections.ask(statement, &parameters).await?.first().map(standing).transpose()
}

/// Begins timers, each of them once.
pub(super) async fn begin(inner: &Inner, owner: Owner, ask: &ToBegin) -> Result<Vec<Begun>> {
    let ToBegin { timers, kinds } = ask;
    let mut answers = vec![Begun::Gone; timers.len()];
    let epoch = owner.epoch.cast_signed();
    let kinds: Vec<&str> = kinds.iter().map(String::as_str).collect();
    let places = Places::of(timers.iter().copied());
    let [dues, numbers, firsts] = places.parameters();
    let token = inner.owned.token(owner.epoch);
    let parameters = [
        (&epoch as _, Type::INT8),
        dues,
        numbers,
        firsts,
        (&kinds as _, Type::TEXT_ARRAY),
        (&token as _, Type::INT8),
    ];
    let statement = "select * from timingwheel.begin_timers(timingwheel.in_time($1, $6, $7), $2, $3, $4, $5)";
    let rows = inner.ask_in_time(owner, statement, &parameters).await?;
    let mut unreadable = HashSet::new();
    for row in &rows {
        let n: i64 = get(row, "n")?;
        let Some(place) = usize::try_from(n - 1).ok().filter(|place| *place < timers.len()) else { continue };
        if get::<Option<&str>>(row, "kind")?.is_none() {
            answers[place] = Begun::Cancelled;
            continue;
        }
        let attempt = attempts(get(row, "attempts")?);
        let state = State::Begun { epoch: owner.epoch, attempt };
        match inner.readable(timers[place].id, stored(row, timers[place], state)) {
            Some(stored) => answers[place] = Begun::Yours(Box::new(stored)),
            // It stays with this owner, and is loaded no more.
            None => {
                unreadable.insert(n);
            }
        }
    }
    if rows.len() == timers.len() {
        return Ok(answers);
    }
    let statement = "select * from timingwheel.why_not(timingwheel.instance($1, $6), $2, $3, $4, $5)";
    let told = inner.connections.ask(statement, &parameters).await?;
    let row = only(&told)?;
    if !get::<bool>(row, "alive")? {
        // The owner is lost, and its attempts with it.
        answers.fill(Begun::Lost);
        return Ok(answers);
    }
    for n in get::<Vec<i64>>(row, "standing")? {
        let answer = usize::try_from(n - 1).ok().and_then(|place| answers.get_mut(place));
        if let Some(answer @ Begun::Gone) = answer
            && !unreadable.contains(&n)
        {
            *answer = Begun::Locked;
        }
    }
    Ok(answers)
}

/// An end, and its index in the call.
type End<'a> = (usize, &'a Ended);

pub(super) async fn settle(inner: &Inner, owner: Owner, ended: Vec<Ended>) -> Result<Vec<Settled>> {
    let mut answers = vec![None; ended.len()];
    let is_done = |(_, ended): &End<'_>| ended.change == Change::Delete && ended.attempt > 0;
    let (mut done, ends): (Vec<_>, Vec<_>) = ended.iter().enumerate().partition(is_done);
    settle_both(inner, owner, &done, &ends, &mut answers).await?;
    // Asks one by one why the others were not deleted.
    done.retain(|(place, _)| answers[*place].is_none());
    settle_both(inner, owner, &[], &done, &mut answers).await?;
    let mut settled = Vec::with_capacity(ended.len());
    for (ended, answer) in ended.iter().zip(answers) {
        settled.push(match answer.unwrap_or(2) {
            0 => Settled::Lost,
            1 => Settled::Done,
            2 => Settled::Gone,
            3 => look(inner, ended.timer).await?,
            4 => Settled::Locked,
            other => return Err(unknown("settle", other)),
        });
    }
    Ok(settled)
}

/// How a timer stands that was changed, unless it has gone meanwhile.
async fn look(inner: &Inner, timer: Near) -> Result<Settled> {
    let places = Places::of(std::iter::once(timer));
    let statement = "select t.* from unnest($1, $2, $3) as a (due, number, first) \
        join timingwheel.timers t on t.shard = timingwheel.shard_of(a.number) and t.due_ms = a.due \
            and t.number = a.number and t.first_ms = a.first";
    let rows = inner.connections.ask(statement, &places.parameters()).await?;
    let found = rows.first().and_then(|row| inner.readable(timer.id, standing(row)));
    Ok(found.map_or(Settled::Gone, |stored| Settled::Changed(Box::new(stored))))
}

/// Deletes the first, and ends the others one by one, in one transaction. Answers as `settle_one` does.
async fn settle_both(
    inner: &Inner,
    owner: Owner,
    done: &[End<'_>],
    ends: &[End<'_>],
    answers: &mut [Option<i32>],
) -> Result<()> {
    if done.is_empty() && ends.is_empty() {
        return Ok(());
    }
    let done_places = Places::of(done.iter().map(|(_, ended)| ended.timer));
    let end_places = Places::of(ends.iter().map(|(_, ended)| ended.timer));
    let [done_dues, done_numbers, done_firsts] = done_places.parameters();
    let [end_dues, end_numbers, end_firsts] = end_places.parameters();
    let (epoch, token) = (owner.epoch.cast_signed(), inner.owned.token(owner.epoch));
    let attempts = |ends| column(ends, |(_, ended): &End<'_>| ended.attempt.cast_signed());
    let versions = |ends| column(ends, |(_, ended): &End<'_>| ended.version.cast_signed());
    let puts = column(ends, |(_, ended)| ended.change.put());
    let [rules, missed, standings] =
        columns_of(puts.iter().map(|put| put.and_then(|put| put.series.as_ref())));
    let changes = column(ends, |(_, ended)| match ended.change {
        Change::Delete => 0,
        Change::Put(_) => 1,
        Change::Bury { was_called: true, .. } => 2,
        Change::Bury { was_called: false, .. } => 3,
    });
    let errors = column(ends, |(_, ended)| match &ended.change {
        Change::Delete => None,
        Change::Put(put) => put.error.as_deref().map(readable),
        Change::Bury { reason, .. } => Some(readable(reason)),
    });
    let statement = "select n, null::int as answer \
        from timingwheel.settle_done(timingwheel.in_time($1, $21, $22), $2, $3, $4, $5, $6) as n \
        union all \
        select a.n, timingwheel.settle_one( \
            timingwheel.in_time($1, $21, $22), a.due, a.number, a.first, a.attempt, a.version, a.change, a.error, \
            a.put_due, a.put_first, a.put_number, a.put_attempts, a.rule, a.missed, a.standing, false) \
        from unnest($7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20) with ordinality as a \
            (due, number, first, attempt, version, change, error, put_due, put_first, put_number, put_attempts, rule, \
            missed, standing, n)";
    let rows = inner
        .ask_in_time(
            owner,
            statement,
            &[
                (&epoch, Type::INT8),
                done_dues,
                done_numbers,
                done_firsts,
                (&attempts(done), Type::INT4_ARRAY),
                (&versions(done), Type::INT4_ARRAY),
                end_dues,
                end_numbers,
                end_firsts,
                (&attempts(ends), Type::INT4_ARRAY),
                (&versions(ends), Type::INT4_ARRAY),
                (&changes, Type::INT4_ARRAY),
                (&errors, Type::TEXT_ARRAY),
                (&column(&puts, |put| put.map(|put| put.timer.due_ms)), Type::INT8_ARRAY),
                (&column(&puts, |put| put.map(|put| put.timer.id.due_ms)), Type::INT8_ARRAY),
                (&column(&puts, |put| put.map(|put| number(put.timer.id))), Type::INT8_ARRAY),
                (&column(&puts, |put| put.map(|put| put.attempts.cast_signed())), Type::INT4_ARRAY),
                (&rules, Type::TEXT_ARRAY),
                (&missed, Type::TEXT_ARRAY),
                (&standings, Type::TEXT_ARRAY),
                (&token, Type::INT8),
            ],
        )
        .await?;
    for row in &rows {
        let n = usize::try_from(get::<i64>(row, "n")? - 1).unwrap_or(usize::MAX);
        let answer: Option<i32> = get(row, "answer")?;
        let Some((place, _)) = (if answer.is_none() { done } else { ends }).get(n) else { continue };
        answers[*place] = Some(answer.unwrap_or(1));
    }
    Ok(())
}
