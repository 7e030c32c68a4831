//! Entries that may be late, and so never move down and are handed out together.

use std::time::Duration;

use super::bucket::Kind;
use super::entries::Link;
use super::levels::RoundedSlot;
use super::{Hierarchy, Key, Nanos};

impl<T> Hierarchy<T> {
    /// Adds an entry. It is handed out at `deadline` or less than `tolerance` later.
    ///
    /// The deadline is rounded up by [`Resolution::round_up_within`](super::Resolution::round_up_within), and that is the
    /// entry's deadline from now on. So entries with near deadlines and tolerances are handed out at the same time.
    ///
    /// If the tolerance is a 12th of the delay or more, the entry waits in one place. With less it may move down as other
    /// entries do. A tolerance of less than four ticks may count as none.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    ///
    /// # Panics
    /// As [`insert`](Self::insert).
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
    /// let tolerance = Duration::from_secs(4);
    ///
    /// wheel.insert_tolerant(at(0), at(30_000), tolerance, "a").expect("30 s lie ahead");
    /// wheel.insert_tolerant(at(0), at(30_500), tolerance, "b").expect("30.5 s lie ahead");
    /// // 8 times 4 s.
    /// assert_eq!(wheel.next_expiration(), Some(at(32_000)));
    ///
    /// let mut expired = Vec::new();
    /// assert_eq!(wheel.advance(at(32_000), 100, &mut expired), Progress::Done);
    /// assert_eq!((expired, wheel.cascaded()), (vec!["a", "b"], 0));
    /// ```
    pub fn insert_tolerant(
        &mut self,
        now: Nanos,
        deadline: Nanos,
        tolerance: Duration,
        payload: T,
    ) -> Result<Key, T> {
        // The deadline that was asked for, which may have passed when the rounded one has not.
        if deadline <= now.max(self.clock()) {
            self.levels.catch_up(now);
            return Err(payload);
        }
        let rounded = self.levels.resolution().round_up_tolerant(deadline, tolerance);
        self.insert_rounded_and_tell(now, rounded, payload).map(|(key, _)| key)
    }

    /// As [`insert_and_tell`](Self::insert_and_tell), for a deadline that was rounded.
    pub(crate) fn insert_rounded_and_tell(
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
        let slot = self.levels.slot_for_rounded(deadline);
        let (place, expiration) = self.levels.link_rounded(key, deadline, slot);
        vacant.insert(payload, Link { deadline, place });
        self.debug_assert_linked(key);
        Ok((key, expiration))
    }

    /// Moves an entry to another deadline, which it may miss by less than `tolerance`. Returns `false` if `key` is stale.
    ///
    /// An entry that had a tolerance before, and moves later, stays in its bucket until that comes up. A deadline that has
    /// passed is due as with [`reschedule`](Self::reschedule).
    pub fn reschedule_tolerant(&mut self, key: Key, deadline: Nanos, tolerance: Duration) -> bool {
        if deadline <= self.clock() {
            return self.reschedule(key, deadline);
        }
        let rounded = self.levels.resolution().round_up_tolerant(deadline, tolerance);
        self.reschedule_rounded_and_tell(key, rounded).is_some()
    }

    /// As [`reschedule`](Self::reschedule), for a deadline that was rounded. Tells the bucket's expiration as
    /// [`insert_and_tell`](Self::insert_and_tell) does, or `MAX` for an entry that stays where it is.
    #[inline]
    pub(crate) fn reschedule_rounded_and_tell(&mut self, key: Key, deadline: Nanos) -> Option<Nanos> {
        let link = self.entries.get_link_mut(key.index())?;
        let Link { deadline: before, place } = *link;
        if !self.levels.holds(key, place) {
            return None;
        }
        link.deadline = deadline;
        if deadline >= before && self.levels.kind(place.bucket()) == Kind::Tolerant {
            return Some(Nanos::MAX);
        }
        Some(self.bring_to_rounded(key, Link { deadline: before, place }, deadline))
    }

    /// The same for an entry that moves earlier, or has had no tolerance. It is a function of its own, so that an entry that
    /// stays takes few registers.
    #[inline(never)]
    fn bring_to_rounded(&mut self, key: Key, before: Link, deadline: Nanos) -> Nanos {
        let Link { deadline: before, place } = before;
        let is_later = deadline >= before;
        let expiration = match self.levels.slot_for_rounded(deadline) {
            RoundedSlot::Exact(_) if is_later => {
                self.levels.extend(place.bucket(), deadline);
                Nanos::MAX
            }
            RoundedSlot::Exact(slot) if slot.bucket == place.bucket() => self.levels.shorten(slot, deadline),
            RoundedSlot::Tolerant(bucket) if bucket == place.bucket() => Nanos::MAX,
            slot => {
                self.levels.unlink(key, place).expect("it is held");
                self.relink_to(key, deadline, slot)
            }
        };
        self.debug_assert_linked(key);
        expiration
    }

    /// Gives an entry, whose bucket has come up before its deadline, another place.
    #[cold]
    pub(super) fn relink_rounded(&mut self, key: Key, deadline: Nanos) {
        let slot = self.levels.slot_for_rounded(deadline);
        self.relink_to(key, deadline, slot);
    }

    /// Gives an entry another place, and tells as [`insert_and_tell`](Self::insert_and_tell) does.
    fn relink_to(&mut self, key: Key, deadline: Nanos, slot: RoundedSlot) -> Nanos {
        let (place, expiration) = self.levels.link_rounded(key, deadline, slot);
        *self.entries.link_mut(key.index()) = Link { deadline, place };
        expiration
    }
}
