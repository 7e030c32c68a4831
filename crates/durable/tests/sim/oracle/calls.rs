//! Calls of users: whether their answers are true, and come.

use std::collections::BTreeSet;

use timingwheel_durable::TimerId;

use super::Reader;
use crate::history::{Event, OF_ITSELF, Settled, Told};

/// What is true at some moment of a call.
pub(super) struct Asked {
    pub(super) key: Option<String>,
    pub(super) db_ms: i64,
    pub(super) due_in_ms: Option<i64>,
    pub(super) at: i64,
    pub(super) was_absent: bool,
    pub(super) was_there: bool,
    pub(super) was_running: bool,
    pub(super) was_removed: bool,
    pub(super) moved: Vec<(TimerId, i64)>,
    pub(super) saved: BTreeSet<TimerId>,
}

impl Reader {
    pub(super) fn look(&self, asked: &mut Asked) {
        let Some(key) = &asked.key else { return };
        let row = self.stands.rows.values().find(|row| row.key.as_ref() == Some(key));
        let runs =
            row.is_some_and(|row| row.begun_by.is_some_and(|epoch| self.stands.members.contains_key(&epoch)));
        asked.was_absent |= row.is_none_or(|row| row.is_ending);
        asked.was_there |= row.is_some();
        asked.was_running |= runs;
    }

    pub(super) fn unanswered(&mut self) {
        for (call, asked) in std::mem::take(&mut self.asked) {
            if self.is_calm(asked.at, asked.at + 60_000) {
                self.wrong("refused", format!("call {call} has no answer, where nothing is wrong"));
            }
        }
    }

    pub(super) fn told(&mut self, call: usize, what: &Told) {
        let Some(asked) = self.asked.remove(&call) else { return };
        let is_true = match what {
            Told::Saved(id) => asked.saved.contains(id) || self.lost_at >= asked.at,
            Told::KeyTaken => asked.was_there,
            Told::Removed => asked.was_removed || self.lost_at >= asked.at,
            Told::Running => asked.was_running || self.lost_at >= asked.at,
            Told::NotFound => asked.key.is_none() || asked.was_absent,
            Told::Moved(id, due_ms) => asked.moved.contains(&(*id, *due_ms)) || self.lost_at >= asked.at,
            Told::Series(_) | Told::Failed(_) | Told::Other(_) => true,
        };
        if matches!(what, Told::Other(told) if told == OF_ITSELF) {
            self.wrong("retry", format!("call {call} is refused, because of the series itself"));
        }
        let is_held = self.held.iter().any(|(from, to, key)| {
            (*key == asked.key || asked.key.is_none()) && *from <= self.now && asked.at <= *to
        });
        if let Told::Failed(why) = what
            && self.is_calm(asked.at, self.now)
            && !self.up.is_empty()
            && !is_held
        {
            self.wrong("refused", format!("call {call} fails, where nothing is wrong: {why}"));
        }
        if !is_true {
            self.wrong("answer", format!("call {call} is told {what:?}, which is not so"));
        }
        // The database's clock is known as of the last answer, which was on its way for so long.
        let error = self.script.timeout_ms.min(self.script.lease_ms / 3);
        if let (Told::Saved(id), Some(due_in_ms)) = (what, asked.due_in_ms) {
            let off = id.first_due().as_millisecond() - asked.db_ms - due_in_ms;
            // An instance learns of it from the next answer to a renewal or a join, which another fault may delay.
            let (now, set_at, lease) = (self.now, self.db_set_at, self.script.lease_ms);
            let was_set = asked.at - set_at < lease
                || self
                    .faults
                    .iter()
                    .any(|(from, to, is_clock)| !is_clock && from - lease <= set_at && now <= *to);
            if !(-error..=self.now - asked.at).contains(&off) && !was_set {
                self.wrong("due", format!("call {call}: {id} is due {off} ms off"));
            }
        }
    }
}

impl Asked {
    pub(super) fn note(&mut self, event: &Event) {
        match event {
            Event::Saved { id, .. } => drop(self.saved.insert(*id)),
            Event::Dropped { .. } => self.was_removed = true,
            Event::Settled(Settled { told: "deleted", .. }) => self.was_removed = true,
            Event::Moved { id, due_ms } => self.moved.push((*id, *due_ms)),
            Event::Settled(Settled { next: Some((id, due_ms, _)), .. }) => self.moved.push((*id, *due_ms)),
            _ => {}
        }
    }
}
