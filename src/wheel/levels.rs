//! The levels, their buckets, the delay queue that the buckets share, and the clock by which the levels are laid out.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::entries::{Bucket, BucketId, Key, Link, Place};
use super::time::{Divisor, Tick};
use super::{Nanos, Resolution};

/// How many emptied buckets one insertion takes out of the queue to move the clock on. If there are more, the clock stays
/// behind, so that no insertion takes the time of all.
const CLEARED_BY_INSERTION: usize = 32;

/// A ring of slots, each `1 << shift` ticks wide.
///
/// Slots are numbered without end ("virtual" numbers, as in Kafka's wheel). The ring keeps those from the clock's own on, so
/// that each bucket stands for one number at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Level {
    shift: u32,
    /// The bucket at the ring's position 0, once a deadline has needed one of this level.
    first_bucket: Option<BucketId>,
    /// The last tick in the ring as the clock stands.
    last: Tick,
}

impl Level {
    fn new(shift: u32, clock: Tick, slots: u64) -> Self {
        let mut level = Self { shift, first_bucket: None, last: Tick(0) };
        level.turn(clock, slots);
        level
    }

    /// Turns the ring so that it begins at the clock's slot, and returns whether it had to be turned. If it had not, neither
    /// have those of coarser levels, because one of their slots is as wide as several of this level.
    fn turn(&mut self, clock: Tick, slots: u64) -> bool {
        // There is nothing past the last tick of all.
        let end = self.number(clock).checked_add(slots).filter(|&end| end <= u64::MAX >> self.shift);
        let last = end.map_or(u64::MAX, |end| (end << self.shift) - 1);
        std::mem::replace(&mut self.last, Tick(last)) != Tick(last)
    }

    /// Whether `tick`, which is not before the clock's, lies in the ring.
    #[inline]
    const fn covers(&self, tick: Tick) -> bool {
        tick.0 <= self.last.0
    }

    /// The number of the slot that covers `tick`.
    #[inline]
    const fn number(&self, tick: Tick) -> u64 {
        tick.0 >> self.shift
    }

    /// The first tick of the slot that covers `tick`.
    const fn first_tick(&self, tick: Tick) -> Tick {
        Tick(self.number(tick) << self.shift)
    }
}

/// A bucket in the queue, as one number, so that two instructions compare two: the time at which it begins, and below that
/// the complement of its own number.
///
/// If two buckets begin together, one of an overflow level comes before that of level 0, because its entries may belong
/// there. Level 0 has the least numbers, hence the complement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Queued(u128);

impl Queued {
    const fn new(beginning: Nanos, bucket: BucketId) -> Self {
        Self((beginning.0 as u128) << 64 | !bucket.0 as u128)
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "shifted right by as much as is lost")]
    pub(super) const fn beginning(self) -> Nanos {
        Nanos((self.0 >> 64) as u64)
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "the upper part is the beginning")]
    pub(super) const fn bucket(self) -> BucketId {
        BucketId(!(self.0 as u32))
    }
}

/// Where an entry waits after its deadline has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moved {
    /// In the bucket in which it was, which comes up when it would have. The new deadline lies ahead of the wheel's clock.
    Stays,
    /// In a bucket that comes up at this time.
    Expires(Nanos),
}

/// Where a deadline belongs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    /// The tick in which the deadline is due, or that begins with it.
    tick: Tick,
    level: usize,
    /// The bucket at the slot. A bucket stands for one slot of the clock's round at a time.
    bucket: BucketId,
}

/// Keys by deadline.
#[derive(Debug)]
pub(super) struct Levels {
    resolution: Resolution,
    /// Every bucket that began before its tick has been drained.
    clock: Nanos,
    /// The tick that `clock` is in.
    clock_tick: Tick,
    /// How many slots, and so buckets, a level has.
    slots: Divisor,
    /// A slot is `1 << growth` times as wide as a slot of the level below. The square of this factor is at most the
    /// number of slots, so as a rule entries skip a level as they come down. The factor is also at most an eighth of
    /// the number of slots. With few slots it is 2, even if that is more than these limits.
    growth: u32,
    /// Level 0 and the overflow levels made so far.
    levels: Vec<Level>,
    /// The buckets of all levels, level after level as they were first needed.
    buckets: Vec<Bucket>,
    /// The buckets that are not empty, and some that were emptied. The earliest is first.
    queue: BinaryHeap<Reverse<Queued>>,
}

impl Levels {
    pub(super) fn new(resolution: Resolution, slots: u32) -> Self {
        let mut levels = Self {
            resolution,
            clock: Nanos::ZERO,
            clock_tick: Tick(0),
            slots: Divisor::new(slots.into()),
            growth: (slots.ilog2() / 2).min(slots.ilog2().saturating_sub(3)).max(1),
            levels: vec![Level::new(0, Tick(0), slots.into())],
            buckets: Vec::new(),
            queue: BinaryHeap::new(),
        };
        levels.make_buckets(0);
        levels
    }

    pub(super) fn slots(&self) -> usize {
        usize::try_from(self.slots.value).expect("at most 2^16")
    }

    pub(super) const fn resolution(&self) -> Resolution {
        self.resolution
    }

    /// How many levels there are so far.
    pub(super) const fn count(&self) -> usize {
        self.levels.len()
    }

    pub(super) fn buckets(&self) -> &[Bucket] {
        &self.buckets
    }

    #[inline]
    pub(super) fn bucket(&self, id: BucketId) -> &Bucket {
        &self.buckets[id.as_index()]
    }

    #[inline]
    pub(super) fn bucket_mut(&mut self, id: BucketId) -> &mut Bucket {
        &mut self.buckets[id.as_index()]
    }

    // ---- The clock. It only moves forward: when the next bucket comes up, when nothing more is due, or when an insertion
    // finds that nothing stands in between.

    pub(super) const fn clock(&self) -> Nanos {
        self.clock
    }

    /// Every deadline up to this time has been drained, except those of entries that were moved to the past since.
    pub(super) fn handed_out_through(&self) -> Nanos {
        let in_clock_tick = self.slots.remainder(self.clock_tick.0);
        let in_clock_tick = usize::try_from(in_clock_tick).expect("at most 2^16 slots");
        match self.queue.peek() {
            // It has been drained in part, and may still hold entries that are due as it begins.
            Some(Reverse(front))
                if front.beginning() == self.clock && !self.bucket(front.bucket()).is_finest() =>
            {
                Nanos(self.clock.0 - 1)
            }
            _ if self.buckets[in_clock_tick].is_empty() => self.clock,
            _ => self.resolution.beginning(self.clock_tick),
        }
    }

    /// Moves the clock to `now` if no entry stands in between, so that entries inserted after idle time start at level 0.
    #[inline]
    pub(super) fn catch_up(&mut self, now: Nanos) {
        // Not more often than once a tick.
        if self.resolution.a_tick_after(self.clock) <= now {
            self.clear_up_to(now);
        }
    }

    #[cold]
    fn clear_up_to(&mut self, now: Nanos) {
        for _ in 0..CLEARED_BY_INSERTION {
            match self.front() {
                Some((front, None)) => self.dequeue(front),
                Some((front, Some(_))) if front.beginning() <= now => return,
                _ => return self.set_clock(now),
            }
        }
    }

    /// Moves the clock forward, and never back.
    pub(super) fn set_clock(&mut self, now: Nanos) {
        if now > self.clock {
            self.clock = now;
            let tick = self.resolution.tick_of_clock(now);
            if tick > self.clock_tick {
                self.clock_tick = tick;
                for level in &mut self.levels {
                    if !level.turn(tick, self.slots.value) {
                        break;
                    }
                }
            }
        }
    }

    // ---- Where a deadline belongs.

    /// The tick in which a deadline is due: the clock's if it has passed.
    #[inline]
    fn due_tick(&self, deadline: Nanos) -> Tick {
        self.resolution.tick_of_deadline(deadline).max(self.clock_tick)
    }

    /// Where a deadline belongs at the clock's present time. Makes levels as needed.
    #[inline(always)]
    pub(super) fn slot_for(&mut self, deadline: Nanos) -> Slot {
        let mut tick = self.due_tick(deadline);
        let mut level = 0;
        if !self.levels[0].covers(tick) {
            // At the end of a tick, a deadline belongs to the slot that begins there: as that comes up, the entry is due.
            tick = self.resolution.tick_of_clock(deadline);
            level = self.overflow_level(tick);
        }
        let number = self.levels[level].number(tick);
        let first = self.levels[level].first_bucket.unwrap_or_else(|| self.make_buckets(level));
        let position = u32::try_from(self.slots.remainder(number)).expect("at most 2^16 slots");
        Slot { tick, level, bucket: BucketId(first.0 + position) }
    }

    /// The finest overflow level that covers `tick`.
    #[inline(always)]
    fn overflow_level(&mut self, tick: Tick) -> usize {
        loop {
            match self.levels.iter().skip(1).position(|level| level.covers(tick)) {
                Some(number) => return number + 1,
                None => self.make_level(),
            }
        }
    }

    /// Makes the next coarser level. None has a shift of 64 or more: the one below that would cover the last tick.
    #[cold]
    fn make_level(&mut self) {
        let shift = self.growth * u32::try_from(self.levels.len()).expect("at most 64");
        self.levels.push(Level::new(shift, self.clock_tick, self.slots.value));
    }

    /// Makes the buckets of a level, and tells the first.
    #[cold]
    fn make_buckets(&mut self, level: usize) -> BucketId {
        let first = BucketId(u32::try_from(self.buckets.len()).expect("at most 64 levels of 2^16 slots"));
        self.levels[level].first_bucket = Some(first);
        let slots = self.slots();
        let level = u8::try_from(level).expect("at most 64");
        // There are few levels, so copying them is cheaper than room for as many again.
        self.buckets.reserve_exact(slots);
        self.buckets.resize_with(self.buckets.len() + slots, || Bucket::new(level));
        first
    }

    // ---- Keys.

    /// Puts a key into the bucket where its deadline belongs. Returns its place, and the bucket's expiration.
    #[inline(always)]
    pub(super) fn link(&mut self, key: Key, deadline: Nanos, slot: Slot) -> (Link, Nanos) {
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
            self.queue.push(Reverse(Queued::new(beginning, id)));
        }
        (Link { deadline, place }, bucket.expiration)
    }

    /// Takes a key out, unless another key stands in its place: then the key is stale.
    #[inline]
    pub(super) fn unlink(&mut self, key: Key, place: Place) -> Option<()> {
        self.bucket_mut(place.bucket()).take(key, place.position())
    }

    /// Whether `key` stands in its place. Otherwise it is stale.
    #[inline(always)]
    pub(super) fn holds(&self, key: Key, place: Place) -> bool {
        self.bucket(place.bucket()).holds(key, place.position())
    }

    /// A key gets a deadline that is not earlier, and stays where it is. If that lies within the tick of a bucket of level
    /// 0, the bucket waits for it. Otherwise the key moves on when its bucket comes up.
    #[inline(always)]
    pub(super) fn postpone(&mut self, link: &mut Link, deadline: Nanos) {
        debug_assert!(deadline >= link.deadline);
        link.deadline = deadline;
        let bucket = &self.buckets[link.place.bucket().as_index()];
        if bucket.is_finest()
            && deadline > bucket.expiration
            && self.resolution.tick_of_deadline(deadline) == self.due_tick(bucket.expiration)
        {
            self.bucket_mut(link.place.bucket()).expiration = deadline;
        }
    }

    /// A key gets a deadline that is not later. `None` if the key is stale.
    #[inline(always)]
    pub(super) fn bring_forward(&mut self, key: Key, link: &mut Link, deadline: Nanos) -> Option<Moved> {
        debug_assert!(deadline <= link.deadline);
        let bucket = self.bucket(link.place.bucket());
        // Only a bucket that lies ahead begins before the deadline of an entry.
        if bucket.is_finest() || bucket.expiration >= deadline {
            return self.bring_to_slot(key, link, deadline);
        }
        self.holds(key, link.place).then(|| {
            link.deadline = deadline;
            Moved::Stays
        })
    }

    /// The same, for a key whose bucket would come up too late, or is of level 0. It is a function of its own, so that a key
    /// that stays takes few registers.
    #[inline(never)]
    fn bring_to_slot(&mut self, key: Key, link: &mut Link, deadline: Nanos) -> Option<Moved> {
        let slot = self.slot_for(deadline);
        if slot.bucket != link.place.bucket() {
            self.unlink(key, link.place)?;
            let (moved, expiration) = self.link(key, deadline, slot);
            *link = moved;
            return Some(Moved::Expires(expiration));
        }
        self.holds(key, link.place).then(|| {
            link.deadline = deadline;
            if slot.level > 0 {
                Moved::Stays
            } else {
                Moved::Expires(self.bucket_mut(slot.bucket).wait_for(deadline))
            }
        })
    }

    // ---- The queue.

    /// The bucket that is to be drained next, and when. An emptied bucket has no time.
    #[inline]
    pub(super) fn front(&self) -> Option<(Queued, Option<Nanos>)> {
        let Reverse(front) = *self.queue.peek()?;
        let bucket = self.bucket(front.bucket());
        Some((front, (!bucket.is_empty()).then_some(bucket.expiration)))
    }

    /// Takes the front out of the queue, which is an empty bucket.
    pub(super) fn dequeue(&mut self, front: Queued) {
        debug_assert_eq!(self.queue.peek(), Some(&Reverse(front)));
        let bucket = self.bucket_mut(front.bucket());
        debug_assert!(bucket.is_empty());
        bucket.queued = false;
        self.queue.pop();
    }

    /// The buckets in the queue that are not empty, each with the time at which it begins, in no order.
    pub(super) fn filled(&self) -> impl Iterator<Item = (Nanos, &Bucket)> {
        let queued =
            self.queue.iter().map(|Reverse(queued)| (queued.beginning(), self.bucket(queued.bucket())));
        queued.filter(|(_, bucket)| !bucket.is_empty())
    }

    // ---- For tests.

    /// Checks every invariant, and returns each key with its place.
    ///
    /// # Panics
    /// If one does not hold.
    pub(super) fn assert_invariants(&self) -> Vec<(Key, Place)> {
        let clock = self.clock_tick;
        assert_eq!(clock, self.resolution.tick_of_clock(self.clock));
        for level in &self.levels {
            let mut turned = level.clone();
            turned.turn(clock, self.slots.value);
            assert_eq!(*level, turned, "a level's ring does not begin at the clock");
        }

        // Each queued bucket stands there once, under the number that its slot stands for at present.
        let mut first_ticks = std::collections::HashMap::new();
        for Reverse(queued) in &self.queue {
            let (id, tick) = (queued.bucket(), self.resolution.tick_of_clock(queued.beginning()));
            assert!(first_ticks.insert(id, tick).is_none(), "{id:?} is queued twice");
            let level = &self.levels[usize::from(self.bucket(id).level)];
            let position = id.0 - level.first_bucket.expect("it has buckets").0;
            assert_eq!(u64::from(position), self.slots.remainder(level.number(tick)), "{id:?}");
            assert_eq!(level.first_tick(tick), tick);
            assert!(tick >= level.first_tick(clock), "{id:?} began before the clock");
            assert!(level.covers(tick), "{id:?} lies beyond its level");
        }

        let mut held = Vec::new();
        for (id, bucket) in (0..).map(BucketId).zip(&self.buckets) {
            let first = first_ticks.get(&id);
            assert_eq!(bucket.queued, first.is_some(), "{id:?} is wrong about being queued");
            match first {
                None => assert!(bucket.is_empty(), "{id:?} is not empty and not queued"),
                Some(&first) if bucket.is_finest() => {
                    let due = self.due_tick(bucket.expiration);
                    assert!(bucket.is_empty() || due <= first.max(clock), "{id:?} waits too long");
                }
                Some(&first) => {
                    assert_eq!(
                        bucket.expiration,
                        self.resolution.beginning(first),
                        "{id:?} comes up within its slot"
                    );
                }
            }
            held.extend(bucket.iter().map(|(position, key)| (key, Place::new(id, position))));
        }
        held
    }

    /// Whether a deadline may wait in that bucket: one of an overflow level begins by then, one of level 0 before the end
    /// of its due tick.
    pub(super) fn may_hold(&self, id: BucketId, deadline: Nanos) -> bool {
        let queued = self.queue.iter().find(|Reverse(queued)| queued.bucket() == id);
        queued.is_some_and(|Reverse(queued)| {
            let latest = if self.bucket(id).is_finest() {
                self.resolution.beginning(self.due_tick(deadline))
            } else {
                deadline
            };
            queued.beginning() <= latest
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn levels(slots: u32) -> Levels {
        Levels::new(Resolution::new(Duration::from_nanos(1)).expect("not zero"), slots)
    }

    #[test]
    fn the_slots_of_a_level_follow_the_clock_round_the_ring() {
        let mut levels = levels(3);
        levels.set_clock(Nanos(7));
        // Tick 7 holds the deadline 8.
        assert_eq!([8, 9, 10].map(|at| levels.slot_for(Nanos(at)).bucket.0), [1, 2, 0]);
        assert_eq!([10, 11].map(|at| levels.slot_for(Nanos(at)).level), [0, 1]);
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
        let far = levels.slot_for(Nanos::MAX);
        assert_eq!((levels.count(), levels.buckets().len()), (far.level + 1, 2 * 64));
        assert_eq!(levels.slot_for(Nanos(100)).bucket, BucketId(2 * 64 + 100 / 8));
    }

    #[test]
    fn a_level_exists_for_the_last_tick_whatever_the_number_of_slots() {
        for slots in [2, 3, 64, 256, 65_536] {
            let mut levels = levels(slots);
            levels.slot_for(Nanos::MAX);
            levels.set_clock(Nanos::MAX);
            assert!(levels.levels.last().expect("there are some").covers(Tick(u64::MAX)), "{slots} slots");
            assert_eq!(levels.slot_for(Nanos::ZERO).level, 0, "the clock's own tick lies on level 0");
            levels.assert_invariants();
        }
    }

    #[test]
    fn the_earliest_comes_first_and_of_two_that_begin_together_that_of_an_overflow_level() {
        let queued =
            [(20, 1), (10, 3), (10, 128), (10, 69)].map(|(at, id)| Queued::new(Nanos(at), BucketId(id)));
        let mut queue: BinaryHeap<_> = queued.into_iter().map(Reverse).collect();
        let order: Vec<(u64, u32)> = std::iter::from_fn(|| queue.pop())
            .map(|Reverse(queued)| (queued.beginning().0, queued.bucket().0))
            .collect();
        assert_eq!(order, [(10, 128), (10, 69), (10, 3), (20, 1)]);
    }
}
