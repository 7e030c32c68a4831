//! Moving the clock: handing out entries that are due, and moving others down.

use super::bucket::Kind;
use super::levels::{Queued, tolerant_end};
use super::{Hierarchy, Key, Nanos};

/// How many entries are read before any of them is handed out or moved, with their payloads if they are to be handed out.
/// They lie anywhere in memory, and the processor fetches them at the same time.
const CHUNK: usize = 32;

/// Whether [`Hierarchy::advance`] has handed out all entries that are due.
#[must_use = "there may be more to hand out"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// No more entries are due.
    Done,
    /// The batch is full; call again.
    More,
}

impl<T> Hierarchy<T> {
    /// The time at which [`advance`](Self::advance) next has something to do, or `None` if nothing is pending.
    ///
    /// It is at most the end of the tick of the earliest deadline; it comes earlier where entries cascade.
    #[must_use]
    pub fn next_expiration(&mut self) -> Option<Nanos> {
        loop {
            match self.levels.front()? {
                (front, None) => self.levels.dequeue(front),
                (_, expiration) => return expiration,
            }
        }
    }

    /// All entries with deadlines up to this time have been handed out, except entries that were moved since then to a
    /// deadline in the past.
    #[must_use]
    pub fn handed_out_through(&self) -> Nanos {
        self.levels.handed_out_through()
    }

    /// Moves the clock to `now`, and appends the payloads of due entries to `expired`, in the order of their ticks.
    ///
    /// One call handles at most `batch` entries, so that a caller who holds a lock can let go of it in between. Each
    /// entry that is handed out or moved counts as one. So do each emptied bucket, and up to 32 places of cancelled
    /// entries together. Between two calls entries may be inserted, moved and cancelled.
    ///
    /// A `now` before the clock is taken for the clock's time.
    ///
    /// # Panics
    /// If `batch` is zero: there would be no progress.
    #[track_caller]
    pub fn advance(&mut self, now: Nanos, batch: usize, expired: &mut Vec<T>) -> Progress {
        assert!(batch > 0, "a batch of {batch} entries: it takes at least 1");
        self.advance_and_tell(now, batch, |_late_by, payload| expired.push(payload))
    }

    /// As [`advance`](Self::advance), for a caller who wants to know by how many nanoseconds each entry is late.
    pub(crate) fn advance_and_tell(
        &mut self,
        now: Nanos,
        batch: usize,
        mut hand_out: impl FnMut(u64, T),
    ) -> Progress {
        debug_assert!(batch > 0, "there would be no progress");
        let now = now.max(self.clock());
        let mut left = batch;
        let mut chunk = [(Key::PLACEHOLDER, Nanos::ZERO); CHUNK];
        loop {
            let due = self.levels.front().filter(|(_, expiration)| expiration.is_none_or(|at| at <= now));
            let Some((front, expiration)) = due else {
                self.levels.set_clock(now);
                return Progress::Done;
            };
            if left == 0 {
                return Progress::More;
            }
            if expiration.is_some() {
                self.levels.set_clock(front.beginning());
                let taken = self.levels.pop_front(front.bucket(), CHUNK.min(left), |positions| {
                    // Of a vacancy there is no link.
                    let deadline_of = |key: Key| self.entries.link(key.index()).map(|link| link.deadline);
                    let keys = positions.iter().filter_map(|&key| deadline_of(key).map(|at| (key, at)));
                    let mut taken = 0;
                    for (place, key) in chunk.iter_mut().zip(keys) {
                        *place = key;
                        taken += 1;
                    }
                    taken
                });
                let taken = taken as usize;
                // To pass vacancies takes next to nothing, but not nothing.
                left -= taken.max(1);
                self.drain(front, now, &chunk[..taken], &mut hand_out);
            } else {
                left -= 1;
            }
            // It is the front still: what was moved on begins later, or begins with it and is finer.
            if self.levels.is_empty(front.bucket()) {
                self.levels.dequeue(front);
            }
        }
    }

    /// Hands out or moves on what was taken out of a bucket that has come up.
    #[inline]
    fn drain(
        &mut self,
        front: Queued,
        now: Nanos,
        chunk: &[(Key, Nanos)],
        hand_out: &mut impl FnMut(u64, T),
    ) {
        let kind = self.levels.kind(front.bucket());
        if kind == Kind::Overflow {
            for &(key, deadline) in chunk {
                self.move_on(key, deadline);
            }
            return;
        }
        let end = if kind == Kind::Tolerant {
            tolerant_end(front)
        } else {
            self.resolution().end(front.beginning())
        };
        if chunk.len() > 1 {
            self.entries.fetch_payloads(chunk.iter().map(|(key, _)| key.index()));
        }
        for &(key, deadline) in chunk {
            if deadline <= end {
                // Never less than zero: what is handed out is due.
                hand_out(now.0.saturating_sub(deadline.0), self.entries.remove(key.index()));
            } else {
                self.move_later(key, deadline, kind);
            }
        }
    }

    /// Moves an entry on that was moved to a later deadline, and left in a bucket whose entries are handed out. Kept
    /// out of the loop that hands out, which is shorter so.
    #[inline(never)]
    fn move_later(&mut self, key: Key, deadline: Nanos, kind: Kind) {
        if kind == Kind::Tolerant {
            self.cascaded += 1;
            self.relink_rounded(key, deadline);
        } else {
            self.move_on(key, deadline);
        }
    }

    /// Moves an entry to the bucket where its deadline belongs by now.
    #[inline(always)]
    fn move_on(&mut self, key: Key, deadline: Nanos) {
        self.cascaded += 1;
        let slot = self.levels.slot_for(deadline);
        self.relink(key, deadline, slot);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::wheel::Resolution;

    #[test]
    fn an_insertion_tells_when_its_bucket_expires() {
        let mut wheel = Hierarchy::new(Resolution::new(Duration::from_nanos(10)).expect("not zero"), 4);
        let tell =
            |deadline| wheel.insert_and_tell(Nanos::ZERO, Nanos(deadline), ()).expect("it lies ahead").1;
        // Two buckets of level 0, and one of level 1.
        assert_eq!([15, 13, 17, 35, 55, 57].map(tell), [15, 15, 17, 35, 40, 40].map(Nanos));
    }
}
