//! The pure core: a hierarchical timing wheel that is told what time it is.
//!
//! Nothing in here reads a clock, takes a lock, holds a `Waker` or knows of tokio. [`Hierarchy`] is generic
//! over its payload; the rest of the crate puts wakers into it, and you may put in what you like: it is a
//! timer queue for any event loop.
//!
//! # How it works
//!
//! Level 0 is a ring of slots, each one tick wide. A deadline that lies beyond it goes to an overflow
//! level, one of whose slots covers a whole round of the level below; overflow levels are made when a
//! deadline first needs them. What stands at a slot is a bucket. Every bucket that is not empty stands in
//! one delay queue shared by all levels, by the time at which it begins. So the clock does not tick: it
//! jumps from one non-empty bucket to the next. When a bucket of an overflow level comes up, its entries
//! cascade to finer levels; when one of level 0 does, they are handed out.
//!
//! With 3 slots a level and a tick of 1, three deadlines travel like this (`3]` is a bucket with the
//! deadlines up to and including 3):
//!
//! ```text
//!              level 0 (width 1)    level 1 (width 3)     level 2 (width 9)
//!  now 0       1] 2] 3]             3] 6] 9]              9] 18] 27]
//!              a at 2               b at 5                c at 13
//!  now 2       3] 4] 5]             3] 6] 9]              a is handed out
//!  now 3       4] 5] 6]             6] 9] 12]             the bucket 6] begins: b moves to level 0, bucket 5]
//!  now 5       6] 7] 8]                                   b is handed out
//!  now 9       10] 11] 12]          12] 15] 18]           the bucket 18] begins: c moves to level 1, bucket 15]
//!  now 12      13] 14] 15]                                the bucket 15] begins: c moves to level 0, bucket 13]
//!  now 13                                                 c is handed out
//! ```
//!
//! The scheme is that of Varghese and Lauck, *Hashed and Hierarchical Timing Wheels* (1987), with the delay
//! queue of Kafka's purgatory. Two things differ from Kafka's: deadlines round up, so nothing is early; and a
//! bucket of level 0 is due at its last deadline instead of at the end of its tick, so a lone entry is handed
//! out exactly on time.

mod advance;
mod bucket;
mod delay_queue;
mod invariants;
mod level;
mod slab;

use bucket::BucketId;
use delay_queue::DelayQueue;
use level::Level;
use slab::{Entries, Place};

use crate::tick::Tick;

pub use self::advance::Progress;
pub use self::slab::Key;
pub use crate::tick::{Nanos, Resolution};

/// Timers with a payload, ordered by deadline to within a tick.
///
/// Inserting, cancelling and moving an entry take constant time; handing one out takes one step for each level
/// it comes down, and the delay queue's logarithm of the number of non-empty buckets once for each bucket.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use timingwheel::wheel::{Hierarchy, Nanos, Progress, Resolution};
///
/// let resolution = Resolution::new(Duration::from_millis(1)).expect("not zero");
/// let mut wheel = Hierarchy::new(resolution, 64);
/// let at = |millis| Nanos::from_duration(Duration::from_millis(millis));
///
/// let tea = wheel.insert(at(0), at(180_000), "tea").expect("180 s lie ahead");
/// wheel.insert(at(0), at(5), "egg").expect("5 ms lie ahead");
/// assert_eq!(wheel.next_expiration(), Some(at(5)));
///
/// let mut expired = Vec::new();
/// assert_eq!(wheel.advance(at(5), 100, &mut expired), Progress::Done);
/// assert_eq!(expired, ["egg"]);
/// assert_eq!(wheel.cancel(tea), Some("tea"));
/// assert_eq!(wheel.cancel(tea), None);
/// ```
#[derive(Debug)]
pub struct Hierarchy<T> {
    resolution: Resolution,
    /// The wheel's clock: every bucket that began before its tick has been handed out or moved down.
    elapsed: Nanos,
    /// The tick that `elapsed` is in.
    clock: Tick,
    entries: Entries<T>,
    /// Level 0 and the overflow levels made so far.
    levels: Vec<Level>,
    queue: DelayQueue,
    cascaded: u64,
}

impl<T> Hierarchy<T> {
    /// The least number of slots in a level.
    pub const MIN_SLOTS: usize = 2;
    /// The greatest number of slots in a level.
    pub const MAX_SLOTS: usize = 1 << 16;

    /// An empty wheel at its origin, with `slots` slots in every level.
    ///
    /// # Panics
    /// If `slots` is not from [`MIN_SLOTS`](Self::MIN_SLOTS) to [`MAX_SLOTS`](Self::MAX_SLOTS).
    #[must_use]
    pub fn new(resolution: Resolution, slots: usize) -> Self {
        assert!(
            (Self::MIN_SLOTS..=Self::MAX_SLOTS).contains(&slots),
            "a level of {slots} slots: it takes from {} to {}",
            Self::MIN_SLOTS,
            Self::MAX_SLOTS,
        );
        Self {
            resolution,
            elapsed: Nanos::ZERO,
            clock: Tick(0),
            entries: Entries::new(),
            levels: vec![Level::finest(slots as u64)],
            queue: DelayQueue::default(),
            cascaded: 0,
        }
    }

    /// How long its ticks are.
    #[must_use]
    pub const fn resolution(&self) -> Resolution {
        self.resolution
    }

    /// How many entries are pending.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing is pending.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many entries the memory now held has places for.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.entries.capacity()
    }

    /// How many levels deadlines have needed so far, level 0 included.
    #[must_use]
    pub fn levels(&self) -> usize {
        self.levels.len()
    }

    /// How many times an entry has been moved from one bucket to another since the wheel was made.
    #[must_use]
    pub const fn cascaded(&self) -> u64 {
        self.cascaded
    }

    /// The wheel's clock: the time up to which [`advance`](Self::advance) has come.
    #[must_use]
    pub const fn elapsed(&self) -> Nanos {
        self.elapsed
    }

    /// Adds an entry that is to be handed out at `deadline`, at most one tick later and never earlier.
    ///
    /// If no bucket that holds something has begun since, the wheel's clock goes on to `now`: after idle time a short timer starts at
    /// level 0, instead of coming down from where it would have been in the past.
    ///
    /// # Errors
    /// Gives the payload back if `deadline` is not after `now` or not after the wheel's clock: it is due.
    ///
    /// # Panics
    /// If 4,294,967,296 entries are pending.
    pub fn insert(&mut self, now: Nanos, deadline: Nanos, payload: T) -> Result<Key, T> {
        self.insert_and_tell(now, deadline, payload).map(|(key, _)| key)
    }

    /// As [`insert`](Self::insert), and tells the bucket's expiration, for a caller who has published what
    /// [`next_expiration`](Self::next_expiration) returned and wants to know whether this is earlier. `MAX` stands
    /// for a bucket of an overflow level that was in the queue already: it does not expire earlier than what was
    /// published.
    pub(crate) fn insert_and_tell(
        &mut self,
        now: Nanos,
        deadline: Nanos,
        payload: T,
    ) -> Result<(Key, Nanos), T> {
        // Not more often than once a tick, as it divides.
        if self.resolution.end(self.elapsed) <= now {
            self.catch_up(now);
        }
        if deadline <= now.max(self.elapsed) {
            return Err(payload);
        }
        let index = self.entries.next_index();
        let (place, expiration) = self.link(index, deadline);
        let key = self.entries.insert(index, payload, deadline, place);
        self.debug_assert_linked(index);
        Ok((key, expiration))
    }

    /// Takes an entry out, or tells by `None` that `key` is stale: its entry was handed out or cancelled.
    pub fn cancel(&mut self, key: Key) -> Option<T> {
        let index = self.entries.find(key)?;
        let entry = self.entries.remove(index);
        self.unlink(entry.place);
        Some(entry.payload)
    }

    /// The payload that `key` names, unless the key is stale.
    pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let index = self.entries.find(key)?;
        Some(&mut self.entries.get_mut(index).payload)
    }

    /// Moves an entry to another deadline, and tells whether there was one: not if `key` is stale.
    ///
    /// Moving it later leaves it in its bucket until that comes up. A deadline in the past is due in the clock's
    /// tick: with the next [`advance`](Self::advance), or with the last deadline in that tick if that is later.
    pub fn reschedule(&mut self, key: Key, deadline: Nanos) -> bool {
        let Some(index) = self.entries.find(key) else { return false };
        let entry = self.entries.get_mut(index);
        let is_later = deadline >= entry.deadline;
        entry.deadline = deadline;
        if is_later {
            let BucketId { level, slot } = entry.place.bucket;
            let bucket = &mut self.levels[usize::from(level)].buckets[usize::from(slot)];
            // Within the bucket's tick the bucket waits for it; beyond, it is moved on when the bucket comes up.
            if level == 0
                && deadline > bucket.last_deadline
                && self.resolution.tick_of_deadline(deadline)
                    == self.resolution.tick_of_deadline(bucket.last_deadline).max(self.clock)
            {
                bucket.last_deadline = deadline;
            }
        } else {
            let place = entry.place;
            self.unlink(place);
            self.relink(index, deadline);
        }
        self.debug_assert_linked(index);
        true
    }

    /// Puts an index into the bucket where its deadline belongs as the clock stands, and makes the levels that it
    /// takes. Tells its place, and the bucket's expiration as [`insert_and_tell`](Self::insert_and_tell) does.
    fn link(&mut self, index: u32, deadline: Nanos) -> (Place, Nanos) {
        let tick = self.resolution.tick_of_deadline(deadline).max(self.clock);
        let mut number = 0;
        while !self.levels[number].covers(tick, self.clock) {
            number += 1;
            if number == self.levels.len() {
                self.levels.push(self.levels[number - 1].overflow());
            }
        }
        let level = &mut self.levels[number];
        let id = BucketId {
            level: u8::try_from(number).expect("at most 64 levels, as each is at least twice as wide"),
            slot: level.slot(tick),
        };
        let first_tick = level.first_tick(tick);
        let bucket = &mut level.buckets[usize::from(id.slot)];
        let position = bucket.push(index, deadline);
        let last_deadline = bucket.last_deadline;
        let beginning = if std::mem::replace(&mut bucket.queued, true) {
            Nanos::MAX
        } else {
            let beginning = self.resolution.beginning(first_tick);
            self.queue.push(beginning, id);
            beginning
        };
        let expiration = if number == 0 { last_deadline } else { beginning };
        (Place { bucket: id, position }, expiration)
    }

    fn relink(&mut self, index: u32, deadline: Nanos) {
        let (place, _) = self.link(index, deadline);
        self.entries.get_mut(index).place = place;
    }

    fn unlink(&mut self, Place { bucket, position }: Place) {
        if let Some(moved) = self.bucket_mut(bucket).swap_remove(position) {
            self.entries.get_mut(moved).place.position = position;
        }
    }

    fn bucket(&self, id: BucketId) -> &bucket::Bucket {
        &self.levels[usize::from(id.level)].buckets[usize::from(id.slot)]
    }

    fn bucket_mut(&mut self, id: BucketId) -> &mut bucket::Bucket {
        &mut self.levels[usize::from(id.level)].buckets[usize::from(id.slot)]
    }
}
