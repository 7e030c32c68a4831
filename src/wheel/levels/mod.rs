//! The levels, their buckets, the delay queue that the buckets share, and the clock by which they are laid out.

mod bucket_queue;
mod clock;
mod invariants;
mod key_counts;
mod level;
mod overflow;
mod rescheduling;
mod tolerant;

use super::bucket::{Bucket, Kind};
use super::key::Key;
use super::place::{BucketId, Place};
use crate::wheel::nanos::Nanos;
use crate::wheel::tick::{Resolution, Tick};
use bucket_queue::BucketQueue;
pub(super) use bucket_queue::Queued;
use level::Level;
use tolerant::TolerantLevels;
pub(super) use tolerant::{RoundedSlot, end as tolerant_end};

/// Where a deadline belongs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    /// The tick in which the deadline is due.
    tick: Tick,
    level: usize,
    /// The bucket at the slot. A bucket stands for one slot of the clock's round at a time.
    pub(super) bucket: BucketId,
}

/// Keys by deadline.
#[derive(Debug)]
pub(super) struct Levels {
    resolution: Resolution,
    /// Every bucket that began before its tick has been drained.
    clock: Nanos,
    /// The tick that `clock` is in.
    clock_tick: Tick,
    /// Level 0 and the overflow levels made so far.
    levels: Vec<Level>,
    tolerant: TolerantLevels,
    /// The buckets of all levels, level after level as they were made.
    buckets: Vec<Bucket>,
    /// How many buckets a level has. Tolerant levels have their own number.
    slots: u32,
    queue: BucketQueue,
}

impl Levels {
    pub(super) fn new(resolution: Resolution, slots: u32) -> Self {
        let mut levels = Self {
            resolution,
            clock: Nanos::ZERO,
            clock_tick: Tick(0),
            levels: vec![Level::finest(slots.into())],
            tolerant: TolerantLevels::default(),
            buckets: Vec::new(),
            slots,
            queue: BucketQueue::default(),
        };
        levels.make_buckets(slots, Kind::Finest);
        levels
    }

    #[allow(clippy::cast_possible_truncation, reason = "there are at most 2^16")]
    pub(super) const fn slots(&self) -> usize {
        self.slots as usize
    }

    pub(super) const fn resolution(&self) -> &Resolution {
        &self.resolution
    }

    /// How many levels there are so far.
    pub(super) const fn count(&self) -> usize {
        self.levels.len()
    }

    /// Where a deadline belongs at the clock's present time. Makes levels as needed.
    #[inline(always)]
    pub(super) fn slot_for(&mut self, deadline: Nanos) -> Slot {
        let tick = self.due_tick(deadline);
        let mut level = 0;
        while !self.levels[level].covers(tick) {
            level += 1;
            if level == self.levels.len() {
                self.overflow();
            }
        }
        Slot { tick, level, bucket: self.levels[level].bucket(tick) }
    }

    /// Puts a key into the bucket where its deadline belongs. Returns its place, and the bucket's expiration, as
    /// [`insert_and_tell`](super::Hierarchy::insert_and_tell) does.
    #[inline(always)]
    pub(super) fn link(&mut self, key: Key, deadline: Nanos, slot: Slot) -> (Place, Nanos) {
        let Slot { tick, level, bucket: id } = slot;
        let bucket = &mut self.buckets[id.as_index()];
        let place = Place::new(id, bucket.push(key));
        if bucket.queued {
            if level == 0 {
                bucket.wait_for(deadline);
            }
        } else {
            bucket.queued = true;
            let beginning = self.resolution.beginning(self.levels[level].first_tick(tick));
            bucket.expiration = if level == 0 { deadline } else { beginning };
            self.queue.push(beginning, id);
        }
        (place, bucket.expiration)
    }

    /// Takes a key out, unless another key stands in its place: then the key is stale.
    #[inline]
    pub(super) fn unlink(&mut self, key: Key, place: Place) -> Option<()> {
        self.buckets[place.bucket().as_index()].take(key, place.position())
    }

    /// Whether `key` stands in its place. Otherwise it is stale.
    #[inline(always)]
    pub(super) fn holds(&self, key: Key, place: Place) -> bool {
        self.bucket(place.bucket()).get(place.position()) == Some(key)
    }

    /// The bucket that is to be drained next, and when. An emptied bucket has no time.
    #[inline]
    pub(super) fn front(&self) -> Option<(Queued, Option<Nanos>)> {
        let front = self.queue.front()?;
        Some((front, self.expiration(front)))
    }

    /// The buckets in the queue, each with the time at which it begins. The front comes first, the others in no order.
    pub(super) fn queued(&self) -> impl Iterator<Item = (Nanos, &Bucket)> {
        self.queue.iter().map(|queued| (queued.beginning(), self.bucket(queued.bucket())))
    }

    /// When a bucket in the queue is to be drained. `None` if it is empty.
    fn expiration(&self, queued: Queued) -> Option<Nanos> {
        let bucket = self.bucket(queued.bucket());
        (!bucket.is_empty()).then_some(bucket.expiration)
    }

    /// As [`Bucket::pop_front`].
    #[inline]
    pub(super) fn pop_front(&mut self, id: BucketId, most: usize, into: impl FnOnce(&[Key]) -> u32) -> u32 {
        self.buckets[id.as_index()].pop_front(most, into)
    }

    /// What happens to a bucket that comes up.
    #[inline]
    pub(super) fn kind(&self, id: BucketId) -> Kind {
        self.bucket(id).kind
    }

    /// Whether a bucket is empty.
    #[inline]
    pub(super) fn is_empty(&self, id: BucketId) -> bool {
        self.bucket(id).is_empty()
    }

    /// Takes the front out of the queue, which is an empty bucket.
    pub(super) fn dequeue(&mut self, front: Queued) {
        debug_assert_eq!(self.queue.front(), Some(front));
        let bucket = &mut self.buckets[front.bucket().as_index()];
        debug_assert!(bucket.is_empty());
        bucket.queued = false;
        self.queue.pop_front();
    }

    /// Whether a bucket is one of level 0.
    #[inline]
    pub(super) const fn is_finest(&self, id: BucketId) -> bool {
        id.0 < self.slots
    }

    /// The tick in which a deadline is due: the clock's if it has passed.
    #[inline]
    fn due_tick(&self, deadline: Nanos) -> Tick {
        self.resolution.tick_of_deadline(deadline).max(self.clock_tick)
    }

    #[inline]
    fn bucket(&self, id: BucketId) -> &Bucket {
        &self.buckets[id.as_index()]
    }
}
