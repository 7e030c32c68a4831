//! Moving the clock: handing out what is due, and moving down what is not.

use super::bucket::BucketId;
use super::delay_queue::Queued;
use super::{Hierarchy, Nanos};

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
            let front = self.queue.front()?;
            if self.bucket(front.bucket()).is_empty() {
                self.dequeue(front);
            } else {
                return Some(self.expiration(front));
            }
        }
    }

    /// Everything with a deadline up to this time has been handed out, but for what was moved to a deadline in the
    /// past since.
    #[must_use]
    pub fn handed_out_through(&self) -> Nanos {
        let slot = self.levels[0].slot(self.clock);
        if self.levels[0].buckets[usize::from(slot)].is_empty() {
            self.elapsed
        } else {
            self.resolution.beginning(self.clock)
        }
    }

    /// Moves the clock to `now`, appending to `expired` what is due, in order of ticks.
    ///
    /// At most `batch` entries are handed out or moved, so that a caller who holds a lock can let go of it in
    /// between; entries may be inserted, moved and cancelled before the next call. A clock that goes back is
    /// taken to stand still.
    ///
    /// # Panics
    /// If `batch` is zero: there would be no progress.
    pub fn advance(&mut self, now: Nanos, batch: usize, expired: &mut Vec<T>) -> Progress {
        assert!(batch > 0, "a batch of no entries makes no progress");
        let now = now.max(self.elapsed);
        let mut left = batch;
        while let Some(front) = self.queue.front() {
            if !self.bucket(front.bucket()).is_empty() {
                if self.expiration(front) > now {
                    break;
                }
                if left == 0 {
                    return Progress::More;
                }
                self.set_clock(front.beginning);
                left = self.drain(front, left, expired);
                if !self.bucket(front.bucket()).is_empty() {
                    return Progress::More;
                }
            }
            self.dequeue(front);
        }
        self.set_clock(now);
        Progress::Done
    }

    /// Takes up to `left` entries out of a bucket that has come up, and returns how many of `left` remain.
    fn drain(&mut self, front: Queued, mut left: usize, expired: &mut Vec<T>) -> usize {
        let id = front.bucket();
        let end = self.resolution.end(front.beginning);
        while left > 0
            && let Some(index) = self.bucket_mut(id).pop_front()
        {
            left -= 1;
            let deadline = self.entries.get(index).deadline;
            // On level 0 an entry with a later deadline is one that was moved to it and left in its bucket.
            if id.level == 0 && deadline <= end {
                expired.push(self.entries.remove(index).payload);
            } else {
                self.cascaded += 1;
                self.relink(index, deadline);
            }
        }
        left
    }

    /// Moves the clock to `now` if nothing stands in between, so that idle time costs nothing later.
    pub(super) fn catch_up(&mut self, now: Nanos) {
        while let Some(front) = self.queue.front()
            && front.beginning <= now
        {
            if !self.bucket(front.bucket()).is_empty() {
                return;
            }
            self.dequeue(front);
        }
        self.set_clock(now);
    }

    /// Moves the clock, unless that would be back.
    fn set_clock(&mut self, now: Nanos) {
        if now > self.elapsed {
            self.elapsed = now;
            self.clock = self.resolution.tick_of_clock(now);
        }
    }

    /// The time at which a bucket in the queue is to be drained.
    pub(super) fn expiration(&self, queued: Queued) -> Nanos {
        match queued.bucket() {
            id @ BucketId { level: 0, .. } => self.bucket(id).last_deadline,
            _ => queued.beginning,
        }
    }

    /// Takes the front of the queue, an empty bucket, out of it.
    fn dequeue(&mut self, front: Queued) {
        let bucket = self.bucket_mut(front.bucket());
        debug_assert!(bucket.is_empty());
        bucket.queued = false;
        self.queue.pop_front();
    }
}
