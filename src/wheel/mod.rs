//! The pure core: a hierarchical timing wheel that is told what time it is.
//!
//! Nothing in here reads a clock, takes a lock, holds a `Waker` or knows of tokio. [`Hierarchy`] is a timer queue for any
//! event loop. It is generic over its payload: the rest of the crate puts wakers into it, and you may put in what you like.
//!
//! # How it works
//!
//! Level 0 is a ring of slots, each one tick wide. A deadline beyond it goes to an overflow level. One slot of an overflow
//! level covers a whole round of the level below. Overflow levels are made when a deadline first needs them.
//!
//! A bucket holds the entries of a slot. All levels share one delay queue, which has every non-empty bucket, ordered by
//! the time at which the bucket begins. So the clock does not tick: it jumps from one such bucket to the next. When a
//! bucket of an overflow level begins, its entries cascade to finer levels. When the last deadline in a bucket of
//! level 0 comes, the bucket's entries are handed out.
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
//! Entries that may be late by four ticks or more, and by at least a 12th of their delay, stand on
//! [levels of their own](Hierarchy::insert_tolerant). They are handed out when their slot ends, and never move down.
//!
//! The scheme comes from Varghese and Lauck, *Hashed and Hierarchical Timing Wheels* (1987), and the delay queue from
//! Kafka's purgatory. Two things differ from Kafka's. Deadlines round up, so no entry is early. And a bucket of level 0
//! is due at its last deadline instead of at the end of its tick, so a lone entry is handed out exactly on time.

// | file | what it has |
// |---|---|
// | `nanos`, `tick` | time, and rounding it to ticks; `tolerance_grid`, `tolerance_unit`: to wider grids, where entries may be late |
// | `levels` | the levels and their buckets; `level`: the arithmetic of one; `bucket_queue`: the delay queue of all buckets that are not empty; overflow levels are made here |
// | `bucket` | the keys of one slot |
// | `entries`, `key`, `place` | the entries, how owners find them, and where they stand |
// | `cancelling`, `rescheduling`, `tolerant` | what is done to an entry before it is due |
// | `advance` | moving the clock: what is due is handed out, the rest of a bucket moves down |
// | `earliest_entry`, `count_by_level` | what comes next, and how many entries stand where |
// | `divisor` | division by a tick of any length |
// | `invariants` | what holds at all times, for tests |

mod advance;
mod bucket;
mod cancelling;
mod count_by_level;
pub(crate) mod divisor;
mod earliest_entry;
mod entries;
mod invariants;
mod key;
mod levels;
mod nanos;
mod place;
mod rescheduling;
pub(crate) mod tick;
pub(crate) mod tolerance_grid;
mod tolerance_unit;
mod tolerant;

use entries::{Entries, Link};
use levels::{Levels, Slot};

pub(crate) use self::count_by_level::Census;

pub use self::advance::Progress;
pub(crate) use self::entries::MAX_ENTRIES;
pub use self::key::Key;
pub use self::nanos::Nanos;
pub use self::tick::Resolution;

/// Timers with a payload, ordered by deadline to within a tick.
///
/// Inserting, cancelling and moving an entry take constant time. Handing an entry out takes one step for each level
/// that it comes down. For each bucket that comes up, the delay queue takes time logarithmic in the number of non-empty
/// buckets.
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
    entries: Entries<T>,
    levels: Levels,
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
    #[track_caller]
    pub fn new(resolution: Resolution, slots: usize) -> Self {
        assert!(
            (Self::MIN_SLOTS..=Self::MAX_SLOTS).contains(&slots),
            "slots must be {} to {}, got {slots}",
            Self::MIN_SLOTS,
            Self::MAX_SLOTS,
        );
        let slots = u32::try_from(slots).expect("checked above");
        Self { entries: Entries::new(), levels: Levels::new(resolution, slots), cascaded: 0 }
    }

    /// How many slots every level has.
    pub(crate) fn slots(&self) -> usize {
        self.levels.slots()
    }

    /// The wheel's [`Resolution`]: how long a tick is.
    #[must_use]
    pub const fn resolution(&self) -> Resolution {
        *self.levels.resolution()
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

    /// For how many entries the wheel holds memory.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.entries.capacity()
    }

    /// How many levels deadlines have needed so far, level 0 included. Levels for entries with a tolerance do not count.
    #[must_use]
    pub const fn levels(&self) -> usize {
        self.levels.count()
    }

    /// How many times an entry has moved to another bucket because its own came up. Moves by
    /// [`reschedule`](Self::reschedule) do not count.
    #[must_use]
    pub const fn cascaded(&self) -> u64 {
        self.cascaded
    }

    /// The wheel's clock: the time up to which [`advance`](Self::advance) has come.
    #[must_use]
    pub const fn clock(&self) -> Nanos {
        self.levels.clock()
    }

    /// Adds an entry. It is handed out at `deadline` or less than a tick later, and never earlier.
    ///
    /// If the wheel's clock is a tick or more behind `now`, and no bucket that holds an entry has begun since, the clock
    /// moves to `now`. So after idle time a short timer starts at level 0, and need not come down from a coarser level.
    ///
    /// To move the clock, an insertion takes emptied buckets out of the queue, at most 32. If more are left, the clock
    /// stays where it is, and the next insertion goes on. An entry that is inserted while the clock is behind may stand
    /// in a bucket that has already begun. Then the clock waits for [`advance`](Self::advance), which is due at once.
    ///
    /// # Errors
    /// If `deadline` is not after `now` or not after the wheel's clock, so that the entry is due. The error is the payload.
    ///
    /// # Panics
    /// If 4,294,966,272 entries are pending: there are no more indices.
    pub fn insert(&mut self, now: Nanos, deadline: Nanos, payload: T) -> Result<Key, T> {
        self.insert_and_tell(now, deadline, payload).map(|(key, _)| key)
    }

    /// As [`insert`](Self::insert), and returns the bucket's expiration too. A caller who has published the
    /// [`next_expiration`](Self::next_expiration) compares it with that.
    #[inline]
    pub(crate) fn insert_and_tell(
        &mut self,
        now: Nanos,
        deadline: Nanos,
        payload: T,
    ) -> Result<(Key, Nanos), T> {
        self.levels.catch_up(now);
        if deadline <= now.max(self.clock()) {
            return Err(payload);
        }
        let vacant = self.entries.vacant();
        let key = vacant.key();
        let slot = self.levels.slot_for(deadline);
        let (place, expiration) = self.levels.link(key, deadline, slot);
        vacant.insert(payload, Link { deadline, place });
        self.debug_assert_linked(key);
        Ok((key, expiration))
    }

    /// Whether `key` names an entry. Otherwise it is stale.
    #[must_use]
    pub fn contains(&self, key: Key) -> bool {
        self.find(key).is_some()
    }

    /// The payload that `key` names, unless the key is stale.
    pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        self.find(key)?;
        Some(self.entries.payload_mut(key.index()))
    }

    /// Gives an entry another place, and returns what [`Levels::link`] does.
    #[inline]
    fn relink(&mut self, key: Key, deadline: Nanos, slot: Slot) -> Nanos {
        let (place, expiration) = self.levels.link(key, deadline, slot);
        *self.entries.link_mut(key.index()) = Link { deadline, place };
        expiration
    }

    /// The link of the entry that `key` names, unless the key is stale.
    #[inline]
    fn find(&self, key: Key) -> Option<&Link> {
        let link = self.entries.link(key.index())?;
        self.levels.holds(key, link.place).then_some(link)
    }
}
