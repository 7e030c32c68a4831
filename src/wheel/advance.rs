//! Moving the clock: handing out what is due, and moving down what is not.

use super::delay_queue::Queued;
use super::levels::tolerant_end;
use super::{Hierarchy, Key, Nanos};

/// Entries that are looked at together before any is handed out or moved. They lie anywhere in memory; looked at in a
/// row, the processor fetches them at the same time.
const CHUNK: usize = 32;

/// Whether [`Hierarchy::advance`] came to the end of what is due.
#[must_use = "there may be more to hand out"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Nothing more is due.
    Done,
    /// The batch is full; call again.
    More,
}

impl<T> Hierarchy<T> {
    /// The time at which [`advance`](Self::advance) next has something to do, or `None` if nothing is pending.
    ///
    /// It is at most the end of the tick of the earliest deadline; it comes earlier where entries cascade.
    pub fn next_expiration(&mut self) -> Option<Nanos> {
        loop {
            match self.levels.front()? {
                (front, None) => self.levels.dequeue(front),
                (_, expiration) => return expiration,
            }
        }
    }

    /// A guess at the [`next_expiration`](Self::next_expiration) after that.
    pub(crate) fn following_expiration(&self) -> Option<Nanos> {
        self.levels.second_expiration()
    }

    /// Everything with a deadline up to this time has been handed out, but for what was moved to a deadline in the
    /// past since.
    #[must_use]
    pub fn handed_out_through(&self) -> Nanos {
        self.levels.drained_through()
    }

    /// Moves the clock to `now`, appending to `expired` what is due, in order of ticks.
    ///
    /// At most `batch` entries are handed out or moved, and emptied buckets dropped, so that a caller who holds a lock
    /// can let go of it in between; entries may be inserted, moved and cancelled before the next call. A clock that
    /// goes back is taken to stand still.
    ///
    /// # Panics
    /// If `batch` is zero: there would be no progress.
    pub fn advance(&mut self, now: Nanos, batch: usize, expired: &mut Vec<T>) -> Progress {
        self.advance_and_tell(now, batch, |_late_by, payload| expired.push(payload))
    }

    /// As [`advance`](Self::advance), for a caller who wants to know by how many nanoseconds each is late.
    pub(crate) fn advance_and_tell(
        &mut self,
        now: Nanos,
        batch: usize,
        mut hand_out: impl FnMut(u64, T),
    ) -> Progress {
        assert!(batch > 0, "a batch of no entries makes no progress");
        let now = now.max(self.elapsed());
        let mut left = batch;
        while let Some((front, expiration)) = self.levels.front() {
            if expiration.is_some_and(|expiration| expiration > now) {
                break;
            }
            if left == 0 {
                return Progress::More;
            }
            if expiration.is_some() {
                self.levels.set_clock(front.beginning());
                let mut hand_out = |deadline: Nanos, payload| {
                    // Never less than zero: what is handed out is due.
                    hand_out(now.0.saturating_sub(deadline.0), payload);
                };
                left = if self.levels.is_tolerant(front.bucket()) {
                    self.drain::<true>(front, left, &mut hand_out)
                } else {
                    self.drain::<false>(front, left, &mut hand_out)
                };
                if self.levels.front() == Some((front, None)) {
                    self.levels.dequeue(front);
                }
            } else {
                self.levels.dequeue(front);
                left -= 1;
            }
        }
        self.levels.set_clock(now);
        Progress::Done
    }

    /// Takes up to `left` entries out of a bucket that has come up, of a tolerant level or of another, and returns how
    /// many of `left` remain.
    fn drain<const TOLERANT: bool>(
        &mut self,
        front: Queued,
        mut left: usize,
        mut hand_out: impl FnMut(Nanos, T),
    ) -> usize {
        let hands_out = TOLERANT || self.levels.is_finest(front.bucket());
        let end = if TOLERANT { tolerant_end(front) } else { self.resolution().end(front.beginning()) };
        while left > 0 {
            let mut keys = [Key::PLACEHOLDER; CHUNK];
            let taken = self.levels.pop_front(front.bucket(), &mut keys[..CHUNK.min(left)]);
            let keys = &keys[..taken];
            if keys.is_empty() {
                break;
            }
            left -= taken;
            let mut deadlines = [Nanos::ZERO; CHUNK];
            for (deadline, key) in deadlines.iter_mut().zip(keys) {
                *deadline = self.entries.link_mut(key.index()).deadline;
            }
            for (&deadline, &key) in deadlines.iter().zip(keys) {
                // Where entries are handed out one with a later deadline was moved to it and left in its bucket.
                if hands_out && deadline <= end {
                    hand_out(deadline, self.entries.remove(key.index()));
                    continue;
                }
                self.cascaded += 1;
                if TOLERANT {
                    self.relink_rounded(key, deadline);
                } else {
                    let slot = self.levels.slot_for(deadline);
                    self.relink(key, deadline, slot);
                }
            }
        }
        left
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::wheel::Resolution;

    #[test]
    fn what_follows_the_next_expiration_is_that_of_the_second_bucket() {
        let mut wheel = Hierarchy::new(Resolution::new(Duration::from_nanos(10)).expect("not zero"), 64);
        for (deadline, following) in [(25, None), (47, Some(47)), (35, Some(35)), (5, Some(25))] {
            wheel.insert(Nanos::ZERO, Nanos(deadline), ()).expect("it lies ahead");
            assert_eq!(wheel.following_expiration(), following.map(Nanos));
        }
    }
}
