//! The calls that save, cancel and move timers, retry or delete buried ones, begin timers and end attempts. Their meaning is in
//! `sql/functions.sql`: a begin and an end that are refused are refused there.

use std::collections::HashSet;
use std::sync::Arc;

use jiff::Timestamp;
use tokio_postgres::Row;

use super::connections::{Parameter, Sends};
use super::convert::{
    attempts, column, columns, get, id, named, near, number, places, readable, standing, stored, texts,
    unknown,
};
use super::reads::find;
use super::{Inner, Result};
use crate::id::{TimerId, millis};
use crate::store::{
    Begun, Change, Ended, Move, Near, NewTimer, Owner, Removal, Saved, Settled, State, Taken, ToBegin, Which,
};

/// First due, number, key.
pub(super) type Name = (Option<i64>, Option<i64>, Option<String>);

/// A timer's name as three parameters, of which one or two are null.
pub(super) fn name(which: &Which) -> Name {
    match which {
        Which::Id(id) => (Some(id.due_ms), Some(number(*id)), None),
        // No timer has it, and none has a number below zero. The database takes no text with a zero.
        Which::Key(key) if key.contains('\0') => (Some(0), Some(-1), None),
        Which::Key(key) => (None, None, Some(key.clone())),
    }
}

/// The answer of `save_one` for the timer of this id.
pub(super) fn saved(row: &Row, id: TimerId) -> Result<Saved> {
    Ok(match get::<i32>(row, "answer")? {
        0 => Saved::Stored(id),
        1 => Saved::KeyTaken(named(row)?.id),
        2 => Saved::Replaced { id, dropped: named(row)? },
        3 => Saved::Kept(named(row)?.id),
        4 => Saved::Updated(named(row)?.id),
        5 => Saved::Follows { id, begun: named(row)?.id },
        6 => Saved::Over { dropped: None },
        7 => Saved::Over { dropped: Some(named(row)?) },
        other => return Err(unknown("save", other)),
    })
}

/// Cancels a timer, on a connection of the store's or in a transaction of the user's.
pub(super) async fn cancel(to: &impl Sends, which: &Which) -> Result<Removal> {
    let (first, number, key) = name(which);
    let statement = "select * from timingwheel.cancel_one($1, $2, $3)";
    let row = to.ask_one(statement, &[&first, &number, &key]).await?;
    Ok(match get::<i32>(&row, "answer")? {
        0 => Removal::NotFound,
        1 => Removal::Removed(named(&row)?),
        2 => Removal::Running(named(&row)?.id, attempts(get(&row, "attempt")?)),
        other => return Err(unknown("cancel", other)),
    })
}

/// Moves a timer, there or there. `tells`: the commit sends a hint.
pub(super) async fn reschedule(to: &impl Sends, which: &Which, due: Timestamp, tells: bool) -> Result<Move> {
    let ((first, number, key), due_ms) = (name(which), millis(due));
    let statement = "select m.*, case when answer = 1 and $5 then timingwheel.hint(num, $4) end \
        from timingwheel.move_one($1, $2, $3, $4) m";
    let row = to.ask_one(statement, &[&first, &number, &key, &due_ms, &tells]).await?;
    let answer = get::<i32>(&row, "answer")?;
    if answer == 0 {
        return Ok(Move::NotFound);
    }
    let from = near(get(&row, "was")?, get(&row, "first")?, get(&row, "num")?);
    match answer {
        1 => Ok(Move::Moved { from, to: Near { due_ms, id: from.id } }),
        2 => Ok(Move::Running(from.id, attempts(get(&row, "attempt")?))),
        other => Err(unknown("reschedule", other)),
    }
}

/// An end, and its index in the call.
type End<'a> = (usize, &'a Ended);

impl Inner {
    /// In one statement. If somebody holds one of the keys, a batch fails soon as
    /// [locked](super::PostgresError::is_locked), and has done nothing; one timer alone waits.
    pub(super) async fn save(self: &Arc<Self>, timers: Vec<NewTimer>) -> Result<Vec<Saved>> {
        let mut answers: Vec<Saved> = timers.iter().map(|timer| Saved::Stored(timer.id)).collect();
        // Those without a key come first, and are stored at once. All instances sort the others the same way, so that no two wait
        // for each other. Timers of one key keep their order.
        let mut all: Vec<(usize, &NewTimer)> = timers.iter().enumerate().collect();
        all.sort_by(|(_, one), (_, two)| one.key.cmp(&two.key));
        let plain = all.partition_point(|(_, timer)| timer.key.is_none());
        let [rules, missed, standings] = columns(all.iter().map(|(_, timer)| texts(timer.series.as_ref())));
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
        let parameters: [&dyn Parameter; 11] = [
            &column(&all, |(_, timer)| timer.id.due_ms),
            &column(&all, |(_, timer)| number(timer.id)),
            &column(&all, |(_, timer)| timer.kind.as_str()),
            &column(&all, |(_, timer)| timer.payload.as_slice()),
            &rules,
            &missed,
            &standings,
            &column(&all, |(_, timer)| timer.key.as_deref()),
            &column(&all, |(_, timer)| timer.replaces),
            &column(&all, |(_, timer)| timer.is_over),
            &i32::try_from(plain).unwrap_or(i32::MAX),
        ];
        let statement = statement.replace("save_one", save_one);
        let rows = if timers.len() > 1 || plain > 0 {
            self.connections.for_runner().ask(&statement, &parameters).await?
        } else {
            self.connections.ask(&statement, &parameters).await?
        };
        for row in &rows {
            let n: i64 = get(row, "n")?;
            let Some((place, timer)) = usize::try_from(n - 1).ok().and_then(|n| all.get(plain + n)) else {
                continue;
            };
            answers[*place] = saved(row, timer.id)?;
        }
        for answer in &answers {
            if let Saved::Stored(id) | Saved::Replaced { id, .. } | Saved::Follows { id, .. } = answer {
                self.note(Near::from(*id));
            }
        }
        self.send_what_came_late().await;
        Ok(answers)
    }

    pub(super) async fn cancel(&self, which: Which) -> Result<Removal> {
        cancel(&self.connections, &which).await
    }

    pub(super) async fn reschedule(self: &Arc<Self>, which: Which, due: Timestamp) -> Result<Move> {
        let answer = reschedule(&self.connections, &which, due, false).await?;
        if let Move::Moved { to, .. } = answer {
            self.note(to);
        }
        self.send_what_came_late().await;
        Ok(answer)
    }

    pub(super) async fn unbury(
        self: &Arc<Self>,
        timer: TimerId,
        due: Option<Timestamp>,
        new_number: u64,
    ) -> Result<Taken> {
        let due_ms = due.map(millis);
        let statement = "select * from timingwheel.unbury_one($1, $2, $3, $4)";
        let parameters: [&dyn Parameter; 4] =
            [&timer.due_ms, &number(timer), &due_ms, &new_number.cast_signed()];
        let row = self.connections.ask_one(statement, &parameters).await?;
        let answer = match (get::<i32>(&row, "answer")?, due_ms) {
            (0, _) => Taken::NotFound,
            (1, Some(due_ms)) => Taken::Stored(near(due_ms, timer.due_ms, get(&row, "num")?)),
            (2, _) => Taken::Deleted,
            (3, _) => Taken::KeyTaken(id(get(&row, "first")?, get(&row, "num")?)),
            (other, _) => return Err(unknown("unbury", other)),
        };
        if let Taken::Stored(near) = answer {
            self.note(near);
        }
        self.send_what_came_late().await;
        Ok(answer)
    }

    /// Each of them once.
    pub(super) async fn begin(&self, owner: Owner, ask: ToBegin) -> Result<Vec<Begun>> {
        let ToBegin { timers, kinds } = ask;
        let mut answers = vec![Begun::Gone; timers.len()];
        let kinds: Vec<&str> = kinds.iter().map(String::as_str).collect();
        let [dues, numbers, firsts] = places(timers.iter().copied());
        let (epoch, token) = self.identity(owner);
        let parameters: [&dyn Parameter; 6] = [&epoch, &token, &dues, &numbers, &firsts, &kinds];
        let statement =
            "select * from timingwheel.begin_timers(timingwheel.in_time($1, $2, $7), $3, $4, $5, $6)";
        let rows = self.ask_in_time(statement, &parameters).await?;
        let mut unreadable = HashSet::new();
        for row in &rows {
            let n: i64 = get(row, "n")?;
            let Some(place) = usize::try_from(n - 1).ok().filter(|place| *place < timers.len()) else {
                continue;
            };
            if get::<Option<&str>>(row, "kind")?.is_none() {
                answers[place] = Begun::Cancelled;
                continue;
            }
            let attempt = attempts(get(row, "attempts")?);
            let state = State::Begun { epoch: owner.epoch, attempt };
            match self.readable(timers[place].id, stored(row, timers[place], state)) {
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
        let statement = "select * from timingwheel.why_not(timingwheel.instance($1, $2), $3, $4, $5, $6)";
        let row = self.connections.for_runner().ask_one(statement, &parameters).await?;
        if !get::<bool>(&row, "alive")? {
            // The owner is lost, and its attempts with it.
            answers.fill(Begun::Lost);
            return Ok(answers);
        }
        for n in get::<Vec<i64>>(&row, "standing")? {
            let answer = usize::try_from(n - 1).ok().and_then(|place| answers.get_mut(place));
            if let Some(answer @ Begun::Gone) = answer
                && !unreadable.contains(&n)
            {
                *answer = Begun::Locked;
            }
        }
        Ok(answers)
    }

    pub(super) async fn settle(self: &Arc<Self>, owner: Owner, ended: Vec<Ended>) -> Result<Vec<Settled>> {
        let mut answers = vec![None; ended.len()];
        let is_done = |(_, ended): &End<'_>| ended.change == Change::Delete && ended.attempt > 0;
        let (mut done, ends): (Vec<_>, Vec<_>) = ended.iter().enumerate().partition(is_done);
        self.settle_both(owner, &done, &ends, &mut answers).await?;
        // Asks one by one why the others were not deleted.
        done.retain(|(place, _)| answers[*place].is_none());
        self.settle_both(owner, &[], &done, &mut answers).await?;
        let mut settled = Vec::with_capacity(ended.len());
        for (ended, answer) in ended.iter().zip(answers) {
            settled.push(match answer.unwrap_or(2) {
                0 => Settled::Fenced,
                1 => {
                    ended.change.put().into_iter().for_each(|put| self.note(put.timer));
                    Settled::Done
                }
                2 => Settled::Gone,
                3 => self.changed(ended.timer.id).await?,
                4 => Settled::Locked,
                other => return Err(unknown("settle", other)),
            });
        }
        Ok(settled)
    }

    /// How a timer stands that was changed, unless it has gone meanwhile.
    async fn changed(&self, timer: TimerId) -> Result<Settled> {
        let row = find(&self.connections.for_runner(), &timer.into()).await?;
        let found = row.and_then(|row| self.readable(timer, standing(&row)));
        Ok(found.map_or(Settled::Gone, |stored| Settled::Changed(Box::new(stored))))
    }

    /// Deletes the first, and ends the others one by one, in one transaction. Answers as `settle_one` does.
    async fn settle_both(
        &self,
        owner: Owner,
        done: &[End<'_>],
        ends: &[End<'_>],
        answers: &mut [Option<i32>],
    ) -> Result<()> {
        if done.is_empty() && ends.is_empty() {
            return Ok(());
        }
        let [done_dues, done_numbers, done_firsts] = places(done.iter().map(|(_, ended)| ended.timer));
        let [end_dues, end_numbers, end_firsts] = places(ends.iter().map(|(_, ended)| ended.timer));
        let (epoch, token) = self.identity(owner);
        let attempts = |ends| column(ends, |(_, ended): &End<'_>| ended.attempt.cast_signed());
        let versions = |ends| column(ends, |(_, ended): &End<'_>| ended.version.cast_signed());
        let puts = column(ends, |(_, ended)| ended.change.put());
        let [rules, missed, standings] =
            columns(puts.iter().map(|put| texts(put.and_then(|put| put.series.as_ref()))));
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
            from timingwheel.settle_done(timingwheel.in_time($1, $2, $22), $3, $4, $5, $6, $7) as n \
            union all \
            select a.n, timingwheel.settle_one( \
                timingwheel.in_time($1, $2, $22), a.due, a.number, a.first, a.attempt, a.version, a.change, a.error, \
                a.put_due, a.put_first, a.put_number, a.put_attempts, a.rule, a.missed, a.standing, false) \
            from unnest($8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21) with ordinality as a \
                (due, number, first, attempt, version, change, error, put_due, put_first, put_number, put_attempts, \
                rule, missed, standing, n)";
        let parameters: [&dyn Parameter; 21] = [
            &epoch,
            &token,
            &done_dues,
            &done_numbers,
            &done_firsts,
            &attempts(done),
            &versions(done),
            &end_dues,
            &end_numbers,
            &end_firsts,
            &attempts(ends),
            &versions(ends),
            &changes,
            &errors,
            &column(&puts, |put| put.map(|put| put.timer.due_ms)),
            &column(&puts, |put| put.map(|put| put.timer.id.due_ms)),
            &column(&puts, |put| put.map(|put| number(put.timer.id))),
            &column(&puts, |put| put.map(|put| put.attempts.cast_signed())),
            &rules,
            &missed,
            &standings,
        ];
        for row in &self.ask_in_time(statement, &parameters).await? {
            let n = usize::try_from(get::<i64>(row, "n")? - 1).unwrap_or(usize::MAX);
            let answer: Option<i32> = get(row, "answer")?;
            let Some((place, _)) = (if answer.is_none() { done } else { ends }).get(n) else { continue };
            answers[*place] = Some(answer.unwrap_or(1));
        }
        Ok(())
    }
}
