//! Series: whether the run that follows is the right one.

use super::{Reader, Row};
use crate::history::Settled;

/// A run that is late by so many milliseconds counts as missed.
const LATE: i64 = 1_000;

impl Reader {
    /// A run has ended, and the next one is stored.
    pub(super) fn goes_on(&mut self, ended: &Settled, row: &Row) {
        let Settled { id, told, next, every_ms, is_series, db_ms, .. } = *ended;
        let (now, every_ms) = (self.now, every_ms.filter(|_| is_series));
        let Some((next, ..)) = next else { return };
        if row.is_ending {
            self.wrong("follows", format!("{id} was cancelled, and is followed by {next:?}"));
        }
        if row.every_ms != every_ms {
            let (is, was) = (every_ms, row.every_ms);
            let what =
                format!("{id} is followed by another rule, {is:?} ms, than it was saved with, {was:?}");
            self.wrong("rule", what);
        }
        let Some(every) = every_ms else { return };
        let (from, to) = (id.first_due().as_millisecond(), next.first_due().as_millisecond());
        let expected = from.div_euclid(every) * every + every;
        if to <= from {
            self.wrong("series", format!("after {id} comes {next}"));
        }
        let (missed, late) = (expected.min(to), db_ms - from);
        // A transaction has held it since before its time, and only that.
        let due = now - late;
        let is_held = row.due_ms == from
            && row.since < due
            && self.held.iter().any(|(begin, end, key)| *key == row.key && *begin < due && now < *end)
            && self.is_calm(due - 5_000, now);
        let is_calm = self.is_calm(now - 5_000, now);
        if !row.is_called
            && told != "buried"
            && !row.is_ending
            && (late < LATE || is_held)
            && self.can_all().1
            && !self.script.is_tight()
            && is_calm
        {
            self.wrong("missed", format!("{id} counts as missed {late} ms after its time"));
        } else if missed < to && db_ms - missed < -self.script.lease_ms && is_calm {
            self.wrong("series", format!("after {id} comes {next}, and not {missed}"));
        }
        if self.retried.contains(&id) {
            self.wrong("retried series", format!("{id} was retried, and is followed by {next}"));
        }
    }
}
