//! The calls that begin timers and end attempts. `begin_timers`, `settle_done` and `settle_one` in
//! `sql/tables_and_functions_1.sql` decide which are refused.

use tokio_postgres::types::Type;

use super::convert::{Places, attempts, epoch, get, readable, series_columns, standing, stored, unknown};
use super::{Inner, PostgresError, only};
use crate::store::{Begun, Change, Ended, Near, Owner, Put, Settled, State, ToBegin};

/// What became of those that were to be begun.
pub(super) async fn begin(inner: &Inner, owner: Owner, ask: &ToBegin) -> Result<Vec<Begun>, PostgresError> {
    let ToBegin { timers, kinds } = ask;
    let mut answers = vec![Begun::Gone; timers.len()];
    let epoch = epoch(owner.epoch);
    let kinds: Vec<&str> = kinds.iter().map(String::as_str).collect();
    let places = Places::of(timers.iter().copied())?;
    let [dues, numbers, firsts] = places.parameters();
    let parameters = [(&epoch as _, Type::INT8), dues, numbers, firsts, (&kinds as _, Type::TEXT_ARRAY)];
    let statement = "select * from timingwheel.begin_timers(timingwheel.in_time($1, $6), $2, $3, $4, $5)";
    let rows = inner.ask_in_time(owner, statement, &parameters).await?;
    for row in &rows {
        let n: i64 = get(row, "n")?;
        let Some(place) = usize::try_from(n - 1).ok().filter(|place| *place < timers.len()) else { continue };
        let attempt = attempts(get(row, "attempts")?);
        let state = State::Begun { epoch: owner.epoch, attempt };
        answers[place] = Begun::Yours(Box::new(stored(row, timers[place], state)?));
    }
    if rows.len() == timers.len() {
        return Ok(answers);
    }
    let statement = "select * from timingwheel.why_not($1, $2, $3, $4, $5)";
    let told = inner.connections.ask(statement, &parameters).await?;
    let row = only(&told)?;
    if !get::<bool>(row, "alive")? {
        // What was begun before it was one no more is its follower's now.
        answers.fill(Begun::Lost);
        return Ok(answers);
    }
    for n in get::<Vec<i64>>(row, "standing")? {
        let answer = usize::try_from(n - 1).ok().and_then(|place| answers.get_mut(place));
        if let Some(answer @ Begun::Gone) = answer {
            *answer = Begun::Locked;
        }
    }
    Ok(answers)
}

/// Whether two of them are one: then they have to be begun one after the other.
pub(super) fn are_different(timers: &[Near]) -> bool {
    let mut seen = std::collections::HashSet::with_capacity(timers.len());
    timers.iter().all(|timer| seen.insert(*timer))
}

/// Ends, a column each.
#[derive(Default)]
pub(super) struct Ends {
    places: Vec<usize>,
    nears: Vec<Near>,
    attempts: Vec<i32>,
    versions: Vec<i32>,
    changes: Vec<i32>,
    errors: Vec<Option<String>>,
    put_dues: Vec<Option<i64>>,
    put_firsts: Vec<Option<i64>>,
    put_attempts: Vec<Option<i32>>,
    rules: Vec<Option<String>>,
    missed: Vec<Option<String>>,
    standings: Vec<Option<String>>,
}

/// The database holds the lower half of them; nobody attempts anything that often.
fn count(attempt: u32) -> i32 {
    i32::try_from(attempt).unwrap_or(i32::MAX)
}

impl Ends {
    fn push(&mut self, place: usize, ended: Ended) {
        let Ended { timer, attempt, version, change } = ended;
        let (change, error, put) = match change {
            Change::Delete => (0, None, None),
            Change::Put(mut put) => (1, put.error.take(), Some(put)),
            Change::Bury { reason, next } => (2, Some(reason), next),
        };
        self.places.push(place);
        self.nears.push(timer);
        self.attempts.push(count(attempt));
        self.versions.push(version.cast_signed());
        self.changes.push(change);
        self.errors.push(error.map(|error| readable(&error)));
        self.put_dues.push(put.as_ref().map(|put| put.timer.due_ms));
        self.put_firsts.push(put.as_ref().map(|put| put.timer.id.due_ms));
        self.put_attempts.push(put.as_ref().map(|put| count(put.attempts)));
        let (rule, missed, standing) =
            series_columns(put.as_ref().and_then(|Put { series, .. }| series.as_ref()));
        self.rules.push(rule);
        self.missed.push(missed);
        self.standings.push(standing);
    }
}

pub(super) async fn settle(
    inner: &Inner,
    owner: Owner,
    ended: Vec<Ended>,
) -> Result<Vec<Settled>, PostgresError> {
    let mut answers = vec![None; ended.len()];
    let (mut done, mut ends) = (Ends::default(), Ends::default());
    for (place, ended) in ended.iter().enumerate() {
        let is_done = ended.change == Change::Delete && ended.attempt > 0;
        if is_done { &mut done } else { &mut ends }.push(place, ended.clone());
    }
    settle_both(inner, owner, &done, &ends, &mut answers).await?;
    // Why some were not deleted, they are asked one by one.
    let mut refused = Ends::default();
    for place in done.places {
        if answers[place].is_none() {
            refused.push(place, ended[place].clone());
        }
    }
    settle_both(inner, owner, &Ends::default(), &refused, &mut answers).await?;
    for (ended, answer) in ended.iter().zip(&mut answers) {
        if let Some(Answer::Changed) = answer {
            *answer = look(inner, ended.timer).await?;
        }
    }
    Ok(answers
        .into_iter()
        .map(|answer| match answer {
            Some(Answer::Told(told)) => told,
            Some(Answer::Changed) | None => Settled::Gone,
        })
        .collect())
}

#[derive(Clone)]
enum Answer {
    Told(Settled),
    /// It stands as a row that is yet to be read.
    Changed,
}

/// How a timer stands that was changed; `None` if it has gone meanwhile.
async fn look(inner: &Inner, timer: Near) -> Result<Option<Answer>, PostgresError> {
    let places = Places::of(std::iter::once(timer))?;
    let statement = "select t.* from unnest($1, $2, $3) as a (due, number, first) \
        join timingwheel.timers t on t.shard = (a.number & 63)::smallint and t.due_ms = a.due \
            and t.number = a.number and t.first_ms = a.first";
    let rows = inner.connections.ask(statement, &places.parameters()).await?;
    let found = rows.first().map(standing).transpose()?;
    Ok(found.map(|stored| Answer::Told(Settled::Changed(Box::new(stored)))))
}

/// Deletes the first, and ends the others one by one, in one transaction.
async fn settle_both(
    inner: &Inner,
    owner: Owner,
    done: &Ends,
    ends: &Ends,
    answers: &mut [Option<Answer>],
) -> Result<(), PostgresError> {
    if done.places.is_empty() && ends.places.is_empty() {
        return Ok(());
    }
    let done_places = Places::of(done.nears.iter().copied())?;
    let end_places = Places::of(ends.nears.iter().copied())?;
    let [done_dues, done_numbers, done_firsts] = done_places.parameters();
    let [end_dues, end_numbers, end_firsts] = end_places.parameters();
    let epoch = epoch(owner.epoch);
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
                (&done.attempts, Type::INT4_ARRAY),
                (&done.versions, Type::INT4_ARRAY),
                end_dues,
                end_numbers,
                end_firsts,
                (&ends.attempts, Type::INT4_ARRAY),
                (&ends.versions, Type::INT4_ARRAY),
                (&ends.changes, Type::INT4_ARRAY),
                (&ends.errors, Type::TEXT_ARRAY),
                (&ends.put_dues, Type::INT8_ARRAY),
                (&ends.put_firsts, Type::INT8_ARRAY),
                (&ends.put_attempts, Type::INT4_ARRAY),
                (&ends.rules, Type::TEXT_ARRAY),
                (&ends.missed, Type::TEXT_ARRAY),
                (&ends.standings, Type::TEXT_ARRAY),
            ],
        )
        .await?;
    for row in &rows {
        let n = usize::try_from(get::<i64>(row, "n")? - 1).unwrap_or(usize::MAX);
        let answer: Option<i32> = get(row, "answer")?;
        let places = if answer.is_none() { &done.places } else { &ends.places };
        let Some(place) = places.get(n) else { continue };
        answers[*place] = Some(answered(answer.unwrap_or(1))?);
    }
    Ok(())
}

/// What `settle_one` has answered.
fn answered(answer: i32) -> Result<Answer, PostgresError> {
    Ok(Answer::Told(match answer {
        0 => Settled::Lost,
        1 => Settled::Done,
        2 => Settled::Gone,
        3 => return Ok(Answer::Changed),
        4 => Settled::Locked,
        other => return Err(unknown("settle", other)),
    }))
}
