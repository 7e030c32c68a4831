//! The hierarchy: entries, and the levels in which their keys stand.

#[cfg(test)]
mod tests;

use super::entries::{Entries, Key, Place};
use super::levels::Levels;
use super::{Nanos, Resolution};

/// How many entries are read before any of them is handed out or moved. They lie anywhere in memory, and the processor
/// fetches them at the same time.
const CHUNK: usize = 32;

/// Timers with a payload, ordered by deadline to within a tick.
///
/// Inserting, cancelling and moving an entry take constant time. Handing an entry out takes one step for each level
/// that it comes down. For each bucket that comes up, the delay queue looks for the next one of its level, 64 slots at a
/// step, and for an overflow bucket compares the overflow levels' fronts.
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

    /// The wheel's [`Resolution`]: how long a tick is.
    #[must_use]
    pub const fn resolution(&self) -> Resolution {
        self.levels.resolution
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
    #[doc(hidden)]
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.entries.capacity()
    }

    /// How many levels there are up to the coarsest that a deadline has needed so far, level 0 included.
    #[doc(hidden)]
    #[must_use]
    pub const fn levels(&self) -> usize {
        self.levels.count()
    }

    /// How many times an entry has moved to another bucket because its own came up. Moves by
    /// [`reschedule`](Self::reschedule) do not count.
    #[doc(hidden)]
    #[must_use]
    pub const fn cascaded(&self) -> u64 {
        self.cascaded
    }

    /// The wheel's clock: the time up to which [`advance`](Self::advance) has come.
    #[must_use]
    pub const fn clock(&self) -> Nanos {
        self.levels.clock
    }

    /// Adds an entry. It is handed out at `deadline` or less than a tick later, and never earlier.
    ///
    /// If the wheel's clock is a tick or more behind `now`, and no bucket that holds an entry has begun since, the clock
    /// moves to `now`. So after idle time a short timer starts at level 0, and need not come down from a coarser level.
    ///
    /// An entry that is inserted while the clock is behind may stand in a bucket that has already begun. Then the clock waits
    /// for [`advance`](Self::advance), which is due at once.
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
        let Self { entries, levels, .. } = self;
        let inserted = entries.insert_by(payload, |key| {
            let slot = levels.slot_for(deadline);
            levels.link(key, deadline, slot)
        });
        debug_assert!(self.contains(inserted.0), "{:?} does not stand where its entry says", inserted.0);
        Ok(inserted)
    }

    /// Moves the clock to `now`, as [`insert`](Self::insert) does.
    #[inline]
    pub(crate) fn catch_up(&mut self, now: Nanos) {
        self.levels.catch_up(now);
    }

    /// Takes an entry out. Returns `None` if `key` is stale, because its entry was handed out or cancelled.
    #[inline]
    pub fn cancel(&mut self, key: Key) -> Option<T> {
        let (_, link) = self.entries.get(key.index())?;
        self.levels.unlink(key, link.place).then(|| self.entries.remove(key.index()))
    }

    /// As [`cancel`](Self::cancel), for several entries. They lie anywhere in memory, and the processor fetches them at the
    /// same time.
    pub(crate) fn cancel_all<const N: usize>(&mut self, keys: [Option<Key>; N]) -> [Option<T>; N] {
        let places = keys.map(|key| {
            let (payload, link) = self.entries.get(key?.index())?;
            payload.and(Some((key?, link.place)))
        });
        let held = places.map(|placed| placed.filter(|&(key, place)| self.levels.holds(key, place)));
        held.map(|placed| {
            let (key, place) = placed?;
            // Not again, of a key that is there twice.
            self.levels.unlink(key, place).then(|| self.entries.remove(key.index()))
        })
    }

    /// Whether `key` names an entry. Otherwise it is stale.
    #[must_use]
    pub fn contains(&self, key: Key) -> bool {
        self.place_of(key).is_some()
    }

    /// The payload that `key` names, unless the key is stale.
    pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let (payload, link) = self.entries.get_mut(key.index())?;
        payload.filter(|_| self.levels.holds(key, link.place))
    }

    /// Where the entry that `key` names stands, unless the key is stale.
    fn place_of(&self, key: Key) -> Option<Place> {
        let (_, link) = self.entries.get(key.index())?;
        self.levels.holds(key, link.place).then_some(link.place)
    }

    /// Moves an entry to another deadline. Returns `false` if `key` is stale.
    ///
    /// An entry that moves later stays in its bucket until that bucket comes up. An entry that moves earlier stays too,
    /// if its bucket comes up before the new deadline and moves its entries down. An entry whose new deadline has
    /// passed moves to the bucket of the clock's tick. The next [`advance`](Self::advance) hands it out, unless that
    /// bucket waits for a later deadline in the same tick.
    pub fn reschedule(&mut self, key: Key, deadline: Nanos) -> bool {
        self.reschedule_if(key, deadline, |_| true).is_some()
    }

    /// As [`reschedule`](Self::reschedule), if `is_wanted` says so of the payload. Returns when the entry's bucket comes up.
    // Always inlined, so that nothing reads the payload of an entry that is moved whatever its payload.
    #[inline(always)]
    pub(crate) fn reschedule_if(
        &mut self,
        key: Key,
        deadline: Nanos,
        is_wanted: impl FnOnce(Option<&mut T>) -> bool,
    ) -> Option<Nanos> {
        let (payload, link) = self.entries.get_mut(key.index())?;
        let is_moved = self.levels.holds(key, link.place) && is_wanted(payload);
        is_moved.then(|| self.levels.reschedule(key, link, deadline))
    }

    /// The time at which [`advance`](Self::advance) next has something to do, or `None` if nothing is pending.
    ///
    /// It is at most the end of the tick of the earliest deadline; it comes earlier where entries cascade. This takes
    /// emptied buckets out of the queue, so it needs the wheel for itself.
    #[must_use]
    pub fn next_expiration(&mut self) -> Option<Nanos> {
        self.levels.next_slot().map(|(_, expiration)| expiration)
    }

    /// All entries with deadlines up to this time have been handed out, except entries that were moved since then to a
    /// deadline in the past.
    #[doc(hidden)]
    #[must_use]
    pub fn handed_out_through(&self) -> Nanos {
        self.levels.handed_out_through()
    }

    /// Moves the clock to `now`, and appends the payloads of due entries to `expired`, in the order of their ticks.
    ///
    /// One call handles at most `batch` entries, so that a caller who holds a lock can let go of it in between. Each
    /// entry that is handed out or moved counts as one. So do up to 32 places of cancelled entries together. Between two
    /// calls entries may be inserted, moved and cancelled.
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
    // Out of line, so that the loop has all registers.
    #[inline(never)]
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
            let Some((next, _)) = self.levels.next_slot().filter(|&(_, expiration)| expiration <= now) else {
                self.levels.set_clock(now);
                return Progress::Done;
            };
            if left == 0 {
                return Progress::More;
            }
            let entries = &self.entries;
            let (taken, due_by) = self.levels.take_from(next, CHUNK.min(left), |positions| {
                // Of a vacancy there is no link.
                let with_deadline = |&key: &Key| Some((key, entries.get(key.index())?.1.deadline));
                let keys = positions.iter().filter_map(with_deadline);
                chunk.iter_mut().zip(keys).map(|(place, key)| *place = key).count()
            });
            // To pass vacancies takes next to nothing, but not nothing.
            left -= taken.max(1);
            for &(key, deadline) in &chunk[..taken] {
                // Due are all of level 0, and those of an overflow bucket that are due as it begins, unless they were moved
                // later.
                if deadline <= due_by {
                    // Never less than zero: what is handed out is due.
                    hand_out(now.0.saturating_sub(deadline.0), self.entries.remove(key.index()));
                } else {
                    self.cascaded += 1;
                    let slot = self.levels.slot_for(deadline);
                    let (link, _) = self.levels.link(key, deadline, slot);
                    *self.entries.get_mut(key.index()).expect("it has one").1 = link;
                }
            }
        }
    }

    /// The payload with the least rank, among those for which `rank` returns one. A rank begins with a deadline. This
    /// is the entry's deadline, or a later one that the wheel does not know.
    ///
    /// This looks at each bucket that holds something, and at each entry of the buckets that may hold the payload. As a rule
    /// that is the bucket that begins first. Another bucket follows if it begins by the deadlines of all entries seen.
    pub(crate) fn earliest_by<R: Ord>(&self, rank: impl Fn(&T) -> Option<(Nanos, R)>) -> Option<&T> {
        let mut earliest: Option<((Nanos, R), &T)> = None;
        // The bucket that begins first comes first, so that others can be left out.
        let first = self.levels.filled().min_by_key(|&(beginning, _)| beginning);
        let is_other = |bucket| first.is_none_or(|(_, first)| !std::ptr::eq(first, bucket));
        let others = self.levels.filled().filter(|&(_, bucket)| is_other(bucket));
        for (beginning, bucket) in first.into_iter().chain(others) {
            // No entry is due before its bucket begins.
            let may_hold_it = earliest.as_ref().is_none_or(|((deadline, _), _)| beginning <= *deadline);
            if !may_hold_it && beginning > self.clock() {
                continue;
            }
            for (_, key) in bucket.iter() {
                let entry = self.entries.get(key.index()).and_then(|(payload, _)| payload);
                let payload = entry.expect("a key in a bucket has an entry");
                let Some(rank) = rank(payload) else { continue };
                if earliest.as_ref().is_none_or(|(least, _)| rank < *least) {
                    earliest = Some((rank, payload));
                }
            }
        }
        earliest.map(|(_, payload)| payload)
    }

    /// Adds to `counts` how many entries stand on each level, level 0 first, but for the entries of the keys `but`. This looks
    /// at every bucket that holds something.
    ///
    /// Keeping these numbers instead would cost each insertion and cancellation, which are many, for the few callers who
    /// ask.
    pub(crate) fn count_by_level(&self, counts: &mut Vec<usize>, but: &[Key]) {
        counts.resize(self.levels().max(counts.len()), 0);
        for (_, bucket) in self.levels.filled() {
            counts[usize::from(bucket.level)] += bucket.len();
        }
        for place in but.iter().filter_map(|&key| self.place_of(key)) {
            counts[usize::from(self.levels.buckets[place.bucket().as_index()].level)] -= 1;
        }
    }

    /// Checks every invariant, in time proportional to everything there is. For tests.
    ///
    /// # Panics
    /// If one does not hold, which is a defect of this crate.
    #[doc(hidden)]
    pub fn assert_invariants(&self) {
        let held = self.levels.assert_invariants();
        assert_eq!(held.len(), self.len());
        for (key, place) in held {
            let (_, link) = self.entries.get(key.index()).expect("what is held has a link");
            assert_eq!(link.place, place, "{key:?} stands where its entry does not say");
            assert!(self.levels.may_hold(place.bucket(), link.deadline), "{key:?} waits beyond its deadline");
        }
    }
}
