//! The calls that begin timers and end attempts. The functions `begin_timers`, `settle_done` and `settle_one` in
//! `sql/tables_and_functions_1.sql` decide which of them are refused.

use std::collections::HashSet;

use tokio_postgres::types::Type;

use super::convert::{Places, attempts, column, columns_of, epoch, get, readable, standing, stored, unknown};
use super::{Inner, Result, only};
use crate::store::{Begun, Change, Ended, Near, Owner, Settled, State, ToBegin};

/// Begins timers, each of them once.
pub(super) async fn begin(inner: &Inner, owner: Owner, ask: &ToBegin) -> Result<Vec<Begun>> {
    let ToBegin { timers, kinds } = ask;
    let mut answers = vec![Begun::Gone; timers.len()];
    let epoch = epoch(owner.epoch);
    let kinds: Vec<&str> = kinds.iter().map(String::as_str).collect();
    let places = Places::of(timers.iter().copied())?;
    let [dues, numbers, firsts] = places.parameters();
    let parameters = [(&epoch as _, Type::INT8), dues, numbers, firsts, (&kinds as _, Type::TEXT_ARRAY)];
    let statement = "select * from timingwheel.begin_timers(timingwheel.in_time($1, $6), $2, $3, $4, $5)";
    let rows = inner.ask_in_time(owner, statement, &parameters).await?;
    let mut unreadable = HashSet::new();
    for row in &rows {
        let n: i64 = get(row, "n")?;
        let Some(place) = usize::try_from(n - 1).ok().filter(|place| *place < timers.len()) else { continue };
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
    let statement = "select * from timingwheel.why_not($1, $2, $3, $4, $5)";
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

/// The database holds the lower half of these numbers. Nobody makes that many attempts.
fn count(attempt: u32) -> i32 {
    i32::try_from(attempt).unwrap_or(i32::MAX)
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
    let places = Places::of(std::iter::once(timer))?;
    let statement = "select t.* from unnest($1, $2, $3) as a (due, number, first) \
        join timingwheel.timers t on t.shard = (a.number & 63)::smallint and t.due_ms = a.due \
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
    let done_places = Places::of(done.iter().map(|(_, ended)| ended.timer))?;
    let end_places = Places::of(ends.iter().map(|(_, ended)| ended.timer))?;
    let [done_dues, done_numbers, done_firsts] = done_places.parameters();
    let [end_dues, end_numbers, end_firsts] = end_places.parameters();
    let epoch = epoch(owner.epoch);
    let attempts = |ends| column(ends, |(_, ended): &End<'_>| count(ended.attempt));
    let versions = |ends| column(ends, |(_, ended): &End<'_>| ended.version.cast_signed());
    let puts = column(ends, |(_, ended)| ended.change.put());
    let [rules, missed, standings] =
        columns_of(puts.iter().map(|put| put.and_then(|put| put.series.as_ref())));
    let changes = column(ends, |(_, ended)| match ended.change {
        Change::Delete => 0,
        Change::Put(_) => 1,
        Change::Bury { .. } => 2,
    });
    let errors = column(ends, |(_, ended)| match &ended.change {
        Change::Delete => None,
        Change::Put(put) => put.error.as_deref().map(readable),
        Change::Bury { reason, .. } => Some(readable(reason)),
    });
    let statement = "select n, null::int as answer \
        from timingwheel.settle_done(timingwheel.in_time($1, $20), $2, $3, $4, $5, $6) as n \
        union all \
        select a.n, timingwheel.settle_one( \
            timingwheel.in_time($1, $20), a.due, a.number, a.first, a.attempt, a.version, a.change, a.error, \
            a.put_due, a.put_first, a.put_attempts, a.rule, a.missed, a.standing, false) \
        from unnest($7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19) with ordinality as a \
            (due, number, first, attempt, version, change, error, put_due, put_first, put_attempts, rule, missed, \
            standing, n)";
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
                (&column(&puts, |put| put.map(|put| count(put.attempts))), Type::INT4_ARRAY),
                (&rules, Type::TEXT_ARRAY),
                (&missed, Type::TEXT_ARRAY),
                (&standings, Type::TEXT_ARRAY),
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
