//! The levels, their buckets, the delay queue that the buckets share, and the clock by which the levels are laid out.

use super::entries::{Bucket, BucketId, Key, Link, Place};
use super::time::Tick;
use super::{Nanos, Resolution};

/// A ring of slots, each `1 << shift` ticks wide.
///
/// Slots are numbered without end ("virtual" numbers, as in Kafka's wheel). The ring keeps those from the clock's own on, so
/// that each bucket stands for one number at a time.
#[derive(Debug)]
struct Level {
    shift: u32,
    /// The bucket at the ring's position 0, once a deadline has needed one of this level.
    first_bucket: Option<BucketId>,
    /// The first slot of this level that holds something, or an emptied one before it that has not been passed yet; never
    /// one that the clock has passed. `None` only if no slot holds something.
    front: Option<Slot>,
}

impl Level {
    const fn new(shift: u32) -> Self {
        Self { shift, first_bucket: None, front: None }
    }

    /// The number of the slot that covers `tick`.
    #[inline]
    const fn number(&self, tick: Tick) -> u64 {
        tick.0 >> self.shift
    }
}

/// A slot of the clock's round, by its first tick, and the bucket that stands for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    tick: Tick,
    bucket: BucketId,
    level: u8,
}

impl Slot {
    /// Takes the place of one that begins later.
    #[inline]
    fn come_first_in(self, place: &mut Option<Self>) {
        if place.is_none_or(|first| self.tick < first.tick) {
            *place = Some(self);
        }
    }
}

/// Keys by deadline.
#[derive(Debug)]
pub(super) struct Levels {
    pub(super) resolution: Resolution,
    /// Every bucket that began before its tick has been drained. It only moves forward: when the next bucket comes up, when
    /// nothing more is due, or when an insertion finds that nothing stands in between.
    pub(super) clock: Nanos,
    /// The tick that `clock` is in.
    clock_tick: Tick,
    /// How many slots, and so buckets, a level has.
    pub(super) slots: u32,
    /// A slot is `1 << growth` times as wide as a slot of the level below. The square of this factor is at most the
    /// number of slots, so as a rule entries skip a level as they come down. The factor is also at most an eighth of
    /// the number of slots. With few slots it is 2, even if that is more than these limits.
    growth: u32,
    /// Level 0 and the overflow levels made so far.
    levels: Vec<Level>,
    /// The buckets of all levels, level after level as they were first needed.
    pub(super) buckets: Vec<Bucket>,
    /// The delay queue: a bit for each bucket, which is set while the bucket holds something. The next bucket of a level is
    /// found from that level's front on, round the ring.
    filled: Vec<u64>,
    /// The first of the overflow levels' fronts.
    overflow_front: Option<Slot>,
}

impl Levels {
    pub(super) fn new(resolution: Resolution, slots: u32) -> Self {
        let mut levels = Self {
            resolution,
            clock: Nanos::ZERO,
            clock_tick: Tick(0),
            slots,
            growth: (slots.ilog2() / 2).min(slots.ilog2().saturating_sub(3)).max(1),
            levels: vec![Level::new(0)],
            buckets: Vec::new(),
            filled: Vec::new(),
            overflow_front: None,
        };
        levels.make_buckets(0);
        levels
    }

    /// How many levels there are so far.
    pub(super) const fn count(&self) -> usize {
        self.levels.len()
    }

    // The clock.

    /// Every deadline up to this time has been drained, except those of entries that were moved to the past since.
    pub(super) fn handed_out_through(&self) -> Nanos {
        let in_clock_tick = self.position(self.clock_tick.0) as usize;
        if self.overflow_front.is_some_and(|front| front.tick <= self.clock_tick) {
            // It has been drained in part, and may still hold entries that are due as it begins.
            Nanos(self.clock.0 - 1)
        } else if self.buckets[in_clock_tick].is_empty() {
            self.clock
        } else {
            self.resolution.beginning(self.clock_tick)
        }
    }

    /// Moves the clock to `now` if no entry stands in between, so that entries inserted after idle time start at level 0.
    #[inline]
    pub(super) fn catch_up(&mut self, now: Nanos) {
        // Not more often than once a tick.
        if self.resolution.a_tick_after(self.clock) <= now {
            self.catch_up_by_ticks(now);
        }
    }

    #[cold]
    fn catch_up_by_ticks(&mut self, now: Nanos) {
        if self.next_slot().is_none_or(|(next, _)| self.resolution.beginning(next.tick) > now) {
            self.set_clock(now);
        }
    }

    /// Moves the clock forward, and never back. The caller has seen that no bucket which holds something is due by `now`, so no
    /// front is passed but one whose tick goes on.
    pub(super) fn set_clock(&mut self, now: Nanos) {
        if now > self.clock {
            self.clock = now;
            self.clock_tick = self.resolution.tick_of_clock(now);
        }
    }

    // Where a deadline belongs.

    /// The tick in which a deadline is due: the clock's if it has passed.
    #[inline]
    fn due_tick(&self, deadline: Nanos) -> Tick {
        self.resolution.tick_of_deadline(deadline).max(self.clock_tick)
    }

    /// Where a deadline belongs at the clock's present time. Makes levels as needed.
    #[inline(always)]
    pub(super) fn slot_for(&mut self, deadline: Nanos) -> Slot {
        let (clock, slots) = (self.clock_tick, u64::from(self.slots));
        let (tick, at_its_end) = self.resolution.ticks_round(deadline);
        let mut tick = tick.max(clock);
        let mut level = 0;
        if tick.0 - clock.0 >= slots {
            // At the end of a tick, a deadline belongs to the slot that begins there: as that comes up, the entry is due.
            tick = at_its_end;
            // The finest overflow level whose ring, as the clock stands, reaches to `tick`. It is never the clock's own slot
            // there: two ticks of one slot are less than a ring of the next finer level apart, which reaches to `tick` too.
            let reaches = |level: &Level| level.number(tick) - level.number(clock) < slots;
            level = loop {
                match self.levels.iter().skip(1).position(reaches) {
                    Some(number) => break number + 1,
                    None => self.make_level(),
                }
            };
        }
        let Level { shift, first_bucket, .. } = self.levels[level];
        let number = tick.0 >> shift;
        let first = first_bucket.unwrap_or_else(|| self.make_buckets(level));
        #[allow(clippy::cast_possible_truncation, reason = "there are at most 64")]
        let level = level as u8;
        Slot { tick: Tick(number << shift), bucket: first.at(self.position(number)), level }
    }

    /// Makes the next coarser level. None has a shift of 64 or more: the one below that would reach to the last tick.
    #[cold]
    fn make_level(&mut self) {
        let shift = self.growth * u32::try_from(self.levels.len()).expect("at most 64");
        self.levels.push(Level::new(shift));
    }

    /// Where the slot with this number stands in its ring.
    #[inline]
    fn position(&self, number: u64) -> u32 {
        let slots = u64::from(self.slots);
        // A division takes longer, and most wheels have such a number of slots.
        let position = if slots.is_power_of_two() { number & (slots - 1) } else { number % slots };
        u32::try_from(position).expect("at most 2^16 slots")
    }

    /// Makes the buckets of a level, and tells the first.
    #[cold]
    fn make_buckets(&mut self, level: usize) -> BucketId {
        let first = BucketId(u32::try_from(self.buckets.len()).expect("at most 64 levels of 2^16 slots"));
        self.levels[level].first_bucket = Some(first);
        let slots = self.slots as usize;
        let level = u8::try_from(level).expect("at most 64");
        // There are few levels, so copying them is cheaper than room for as many again.
        self.buckets.reserve_exact(slots);
        self.buckets.resize_with(self.buckets.len() + slots, || Bucket::new(level));
        self.filled.resize(self.buckets.len().div_ceil(u64::BITS as usize), 0);
        first
    }

    // Keys.

    /// Puts a key into the bucket where its deadline belongs. Returns its place, and the bucket's expiration.
    #[inline(always)]
    pub(super) fn link(&mut self, key: Key, deadline: Nanos, slot: Slot) -> (Link, Nanos) {
        let bucket = &mut self.buckets[slot.bucket.as_index()];
        let place = Place::new(slot.bucket, bucket.push(key));
        let level = usize::from(slot.level);
        if bucket.len() == 1 {
            slot.come_first_in(&mut self.levels[level].front);
            if level > 0 {
                slot.come_first_in(&mut self.overflow_front);
            }
            let (word, bit) = slot.bucket.bit();
            self.filled[word] |= bit;
            bucket.expiration = if level == 0 { deadline } else { self.resolution.beginning(slot.tick) };
        } else if level == 0 {
            bucket.wait_for(deadline);
        }
        (Link { deadline, place }, bucket.expiration)
    }

    /// Takes a key out. Returns `false` if another key stands in its place: then the key is stale.
    #[inline]
    pub(super) fn unlink(&mut self, key: Key, place: Place) -> bool {
        let bucket = &mut self.buckets[place.bucket().as_index()];
        if !bucket.take(key, place.position()) {
            return false;
        }
        if bucket.is_empty() {
            self.clear(place.bucket());
        }
        true
    }

    /// Whether `key` stands in its place. Otherwise it is stale.
    #[inline(always)]
    pub(super) fn holds(&self, key: Key, place: Place) -> bool {
        self.buckets[place.bucket().as_index()].holds(key, place.position())
    }

    /// Gives a key that stands in its place another deadline, and moves it only if its bucket would come up too late, or is
    /// of level 0. Returns when its bucket comes up.
    ///
    /// A key that moves later goes on when its bucket comes up, but a bucket
    /// of level 0 waits for a deadline in its own tick.
    #[inline(always)]
    pub(super) fn reschedule(&mut self, key: Key, link: &mut Link, deadline: Nanos) -> Nanos {
        let bucket = &mut self.buckets[link.place.bucket().as_index()];
        // Only a bucket that lies ahead begins before the deadline of an entry.
        if deadline < link.deadline && (bucket.is_finest() || bucket.expiration >= deadline) {
            return self.move_earlier(key, link, deadline);
        }
        link.deadline = deadline;
        let tick = |deadline| self.resolution.tick_of_deadline(deadline).max(self.clock_tick);
        if bucket.is_finest() && deadline > bucket.expiration && tick(deadline) == tick(bucket.expiration) {
            bucket.expiration = deadline;
        }
        bucket.expiration
    }

    /// Out of line, so that a key that stays takes few registers.
    #[inline(never)]
    fn move_earlier(&mut self, key: Key, link: &mut Link, deadline: Nanos) -> Nanos {
        let slot = self.slot_for(deadline);
        if slot.bucket != link.place.bucket() {
            self.unlink(key, link.place);
            let (moved, expiration) = self.link(key, deadline, slot);
            *link = moved;
            return expiration;
        }
        link.deadline = deadline;
        let bucket = &mut self.buckets[slot.bucket.as_index()];
        if bucket.is_finest() { bucket.wait_for(deadline) } else { bucket.expiration }
    }

    // The queue.

    /// The slot that is to be drained next, and when: the first to begin of those that hold something. If one of level 0
    /// begins together with one of an overflow level, that one is first, because its entries may belong to level 0.
    #[inline]
    pub(super) fn next_slot(&mut self) -> Option<(Slot, Nanos)> {
        loop {
            let first = match (self.levels[0].front, self.overflow_front) {
                (Some(fine), Some(overflow)) if fine.tick < overflow.tick => fine,
                (fine, overflow) => overflow.or(fine)?,
            };
            let bucket = &self.buckets[first.bucket.as_index()];
            if !bucket.is_empty() {
                return Some((first, bucket.expiration));
            }
            self.pass(first);
        }
    }

    /// Takes the front of a level, which has emptied, out of the queue, and finds the next one.
    fn pass(&mut self, emptied: Slot) {
        let Slot { tick, bucket: own, level: number } = emptied;
        self.clear(own);
        let level = usize::from(number);
        let Level { shift, first_bucket, .. } = self.levels[level];
        let first = first_bucket.expect("it has buckets");
        let next = self.filled_in(own, first.at(self.slots));
        let next = next.or_else(|| self.filled_in(first, own)).map(|bucket| {
            let slots_ahead = bucket.0.checked_sub(own.0).unwrap_or_else(|| bucket.0 + self.slots - own.0);
            Slot { tick: Tick(tick.0 + (u64::from(slots_ahead) << shift)), bucket, level: number }
        });
        self.levels[level].front = next;
        if level > 0 {
            let fronts = self.levels[1..].iter().filter_map(|level| level.front);
            self.overflow_front = fronts.min_by_key(|front| front.tick);
        }
    }

    /// The first bucket from `from` on, and before `end`, that holds something.
    #[inline]
    fn filled_in(&self, from: BucketId, end: BucketId) -> Option<BucketId> {
        let mut word = from.0 / u64::BITS;
        let mut bits = self.filled.get(word as usize)? & (u64::MAX << (from.0 % u64::BITS));
        while bits == 0 {
            word += 1;
            if word * u64::BITS >= end.0 {
                return None;
            }
            bits = *self.filled.get(word as usize)?;
        }
        Some(BucketId(word * u64::BITS + bits.trailing_zeros())).filter(|&at| at < end)
    }

    #[inline]
    fn clear(&mut self, bucket: BucketId) {
        let (word, bit) = bucket.bit();
        self.filled[word] &= !bit;
    }

    /// Moves the clock to where the next slot begins, and takes up to `most` positions out of it, as
    /// [`Bucket::take_first`] does. Tells how many keys these held, and up to which deadline they are due.
    #[inline]
    pub(super) fn take_from(
        &mut self,
        next: Slot,
        most: usize,
        into: impl FnOnce(&[Key]) -> usize,
    ) -> (usize, Nanos) {
        let begins = self.resolution.beginning(next.tick);
        if next.tick > self.clock_tick {
            (self.clock, self.clock_tick) = (begins, next.tick);
        }
        let bucket = &mut self.buckets[next.bucket.as_index()];
        let due_by = if next.level == 0 { self.resolution.a_tick_after(begins) } else { begins };
        let taken = bucket.take_first(most, into);
        if bucket.is_empty() {
            self.pass(next);
        }
        (taken, due_by)
    }

    /// The buckets that hold something, each with the time at which it begins.
    pub(super) fn filled(&self) -> impl Iterator<Item = (Nanos, &Bucket)> {
        let next = |from| self.filled_in(from, BucketId(u32::MAX));
        std::iter::successors(next(BucketId(0)), move |&at| next(at.at(1))).map(|at| {
            let bucket = &self.buckets[at.as_index()];
            let tick = self.due_tick(bucket.expiration);
            let begins = if bucket.is_finest() { self.resolution.beginning(tick) } else { bucket.expiration };
            (begins, bucket)
        })
    }

    // For tests.

    /// Checks every invariant, and returns each key with its place.
    ///
    /// # Panics
    /// If one does not hold.
    pub(super) fn assert_invariants(&self) -> Vec<(Key, Place)> {
        assert_eq!(self.clock_tick, self.resolution.tick_of_clock(self.clock));
        for front in self.levels.iter().filter_map(|level| level.front) {
            assert_eq!(
                self.slot_of(front.bucket).1,
                front.tick,
                "a front lies beyond its ring as the clock stands"
            );
        }
        let overflow_fronts = self.levels[1..].iter().filter_map(|level| Some(level.front?.tick));
        assert_eq!(self.overflow_front.map(|front| front.tick), overflow_fronts.min());
        let mut held = Vec::new();
        for (id, bucket) in (0..).map(BucketId).zip(&self.buckets) {
            let (word, bit) = id.bit();
            assert_eq!(
                self.filled[word] & bit != 0,
                !bucket.is_empty(),
                "{id:?} is wrong about being queued"
            );
            held.extend(bucket.iter().map(|(position, key)| (key, Place::new(id, position))));
            if bucket.is_empty() {
                continue;
            }
            let (level, tick) = self.slot_of(id);
            assert!(level.front.is_some_and(|front| front.tick <= tick), "{id:?} is not in the queue");
            if bucket.is_finest() {
                assert_eq!(self.due_tick(bucket.expiration), tick, "{id:?} waits too long");
            } else {
                assert_eq!(
                    bucket.expiration,
                    self.resolution.beginning(tick),
                    "{id:?} comes up within its slot"
                );
            }
        }
        held
    }

    /// The level of a bucket, and the first tick of the slot for which the bucket stands.
    fn slot_of(&self, id: BucketId) -> (&Level, Tick) {
        let level = &self.levels[usize::from(self.buckets[id.as_index()].level)];
        let position = id.0 - level.first_bucket.expect("it has buckets").0;
        let number = level.number(self.clock_tick);
        let ahead = (self.slots + position - self.position(number)) % self.slots;
        (level, Tick((number + u64::from(ahead)) << level.shift))
    }

    /// Whether a deadline may wait in that bucket: one of an overflow level begins by then, one of level 0 before the end
    /// of its due tick.
    pub(super) fn may_hold(&self, id: BucketId, deadline: Nanos) -> bool {
        let (level, tick) = self.slot_of(id);
        let latest =
            if level.shift == 0 { self.resolution.beginning(self.due_tick(deadline)) } else { deadline };
        self.resolution.beginning(tick) <= latest
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn levels(slots: u32) -> Levels {
        Levels::new(Resolution::new(Duration::from_nanos(1)).expect("not zero"), slots)
    }

    /// The level of the slot to which a deadline belongs.
    fn level_for(levels: &mut Levels, deadline: Nanos) -> usize {
        let bucket = levels.slot_for(deadline).bucket;
        levels.buckets[bucket.as_index()].level.into()
    }

    #[test]
    fn the_slots_of_a_level_follow_the_clock_round_the_ring() {
        let mut levels = levels(3);
        levels.set_clock(Nanos(7));
        // Tick 7 holds the deadline 8.
        assert_eq!([8, 9, 10].map(|at| levels.slot_for(Nanos(at)).bucket.0), [1, 2, 0]);
        assert_eq!([10, 11].map(|at| level_for(&mut levels, Nanos(at))), [0, 1]);
    }

    #[test]
    fn a_slot_is_wider_by_a_power_of_two_whose_square_is_at_most_the_slots_and_that_is_at_most_an_eighth_of_them()
     {
        let growth = |slots| 1 << levels(slots).growth;
        let slots = [2, 3, 8, 16, 31, 32, 64, 127, 128, 256, 65_536];
        assert_eq!(slots.map(growth), [2, 2, 2, 2, 2, 4, 8, 8, 8, 16, 256]);
    }

    #[test]
    fn only_levels_that_were_needed_have_buckets() {
        let mut levels = levels(64);
        let far = level_for(&mut levels, Nanos::MAX);
        assert_eq!((levels.count(), levels.buckets.len()), (far + 1, 2 * 64));
        assert_eq!(levels.slot_for(Nanos(100)).bucket, BucketId(2 * 64 + 100 / 8));
    }

    #[test]
    fn a_level_exists_for_the_last_tick_whatever_the_number_of_slots() {
        for slots in [2, 3, 64, 256, 65_536] {
            let mut levels = levels(slots);
            levels.slot_for(Nanos::MAX);
            let made = levels.count();
            levels.set_clock(Nanos::MAX);
            levels.slot_for(Nanos::MAX);
            assert_eq!(levels.count(), made, "{slots} slots");
            assert_eq!(level_for(&mut levels, Nanos::ZERO), 0, "the clock's own tick lies on level 0");
            levels.assert_invariants();
        }
    }
}
