//! The call that ends attempts. `settle_done` and `settle_one` in `sql/tables_and_functions_1.sql` decide which are refused.

use tokio_postgres::types::Type;

use super::batch::{Places, unknown};
use super::convert::{epoch, get, readable, rule};
use super::{Inner, PostgresError};
use crate::id::{TimerId, millis};
use crate::store::{End, Ended, Near, Next, Owner, Settled};

/// Ends that are more than a deletion, a column each.
#[derive(Default)]
struct Ends {
    places: Vec<usize>,
    nears: Vec<Near>,
    attempts: Vec<i32>,
    ends: Vec<i32>,
    again: Vec<Option<i64>>,
    errors: Vec<Option<String>>,
    counts: Vec<bool>,
    next: Vec<Option<i64>>,
    series: Vec<Option<String>>,
    planned: Vec<Option<String>>,
}

impl Ends {
    fn push(&mut self, place: usize, ended: Ended) {
        let Ended { timer, attempt, series: planned, end } = ended;
        self.places.push(place);
        self.nears.push(timer);
        self.attempts.push(count(attempt));
        let (end, again, error, counts, next) = match end {
            End::Done { next } => (0, None, None, true, next),
            End::Again { due, error, counts } => (1, Some(millis(due)), error, counts, None),
            End::Bury { reason, next } => (2, None, Some(reason), true, next),
            End::Cancelled => (3, None, None, true, None),
        };
        self.ends.push(end);
        self.again.push(again);
        self.errors.push(error.map(|error| readable(&error)));
        self.counts.push(counts);
        let (next, series) = next.map(|Next { due, series }| (millis(due), series.to_string())).unzip();
        self.next.push(next);
        self.series.push(series);
        self.planned.push(planned.map(|planned| planned.to_string()));
    }
}

/// The database holds the lower half of them; nobody attempts anything that often.
fn count(attempt: u32) -> i32 {
    i32::try_from(attempt).unwrap_or(i32::MAX)
}

pub(super) async fn settle(
    inner: &Inner,
    owner: Owner,
    ended: Vec<Ended>,
) -> Result<Vec<Settled>, PostgresError> {
    let mut answers = vec![Settled::Lost; ended.len()];
    let (mut done, mut ends) = (Vec::new(), Ends::default());
    for (place, ended) in ended.into_iter().enumerate() {
        if ended.end == (End::Done { next: None }) && ended.series.is_none() {
            done.push((place, ended));
        } else {
            ends.push(place, ended);
        }
    }
    let mut deleted = Ends::default();
    for (place, ended) in &done {
        deleted.push(*place, ended.clone());
    }
    settle_both(inner, owner, &deleted, &ends, &mut answers).await?;
    // A series that was meanwhile given a rule is refused for another reason than one that is lost.
    done.retain(|(place, _)| answers[*place] == Settled::Lost);
    if !done.is_empty() {
        let mut refused = Ends::default();
        for (place, ended) in done {
            refused.push(place, ended);
        }
        settle_both(inner, owner, &Ends::default(), &refused, &mut answers).await?;
    }
    Ok(answers)
}

/// Deletes the first, and ends the others one by one, in one transaction.
async fn settle_both(
    inner: &Inner,
    owner: Owner,
    done: &Ends,
    ends: &Ends,
    answers: &mut [Settled],
) -> Result<(), PostgresError> {
    if done.places.is_empty() && ends.places.is_empty() {
        return Ok(());
    }
    let done_places = Places::of(done.nears.iter().copied())?;
    let end_places = Places::of(ends.nears.iter().copied())?;
    let [done_dues, done_numbers, done_firsts] = done_places.parameters();
    let [end_dues, end_numbers, end_firsts] = end_places.parameters();
    let epoch = epoch(owner.epoch);
    let statement = "select n, null::int as answer, null::bigint as due, null::bigint as first, \
            null::text as rule \
        from timingwheel.settle_done(timingwheel.in_time($1, $17), $2, $3, $4, $5) as n \
        union all \
        select a.n, s.answer, s.due, s.first, s.rule \
        from unnest($6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16) with ordinality as a \
            (due, number, first, attempt, ending, again, error, counts, next, series, planned, n) \
        cross join lateral timingwheel.settle_one( \
            timingwheel.in_time($1, $17), a.due, a.number, a.first, a.attempt, a.ending, a.again, a.error, a.counts, a.next, a.series, \
            a.planned, false) s";
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
                end_dues,
                end_numbers,
                end_firsts,
                (&ends.attempts, Type::INT4_ARRAY),
                (&ends.ends, Type::INT4_ARRAY),
                (&ends.again, Type::INT8_ARRAY),
                (&ends.errors, Type::TEXT_ARRAY),
                (&ends.counts, Type::BOOL_ARRAY),
                (&ends.next, Type::INT8_ARRAY),
                (&ends.series, Type::TEXT_ARRAY),
                (&ends.planned, Type::TEXT_ARRAY),
            ],
        )
        .await?;
    for row in &rows {
        let n = usize::try_from(get::<i64>(row, "n")? - 1).unwrap_or(usize::MAX);
        let answer: Option<i32> = get(row, "answer")?;
        let places = if answer.is_none() { &done.places } else { &ends.places };
        let Some(place) = places.get(n) else { continue };
        answers[*place] = match answer {
            None | Some(1) => Settled::Done(None),
            Some(0) => Settled::Lost,
            Some(2) => {
                let unique = ends.nears[n].id.unique;
                let id = TimerId { due_ms: get(row, "first")?, unique };
                Settled::Done(Some(Near { due_ms: get(row, "due")?, id }))
            }
            Some(3) => Settled::Replanned(rule(row)?),
            Some(4) => Settled::Locked,
            Some(other) => return Err(unknown("settle", other)),
        };
    }
    Ok(())
}
