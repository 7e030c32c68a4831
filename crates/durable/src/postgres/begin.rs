//! The call that begins timers, decided by `begin_timers` in `sql/tables_and_functions_1.sql`.

use tokio_postgres::types::Type;

use super::batch::Places;
use super::convert::{attempts, epoch, get, stored};
use super::{Inner, PostgresError, only};
use crate::store::{Begun, Near, Owner, State, ToBegin};

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
