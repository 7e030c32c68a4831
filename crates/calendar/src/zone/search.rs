//! The next instant of times on the wall, by the clocks of a zone.

use jiff::Timestamp;

use super::change::{Shown, change_after, floor, last_gap, offset_at, shown, timestamp};
use super::gap_overlap::{Gap, Overlap};
use super::{InZone, WallTimes};
use crate::wall::Wall;

/// No search looks at more times on the wall. A time is looked at and left only if a clock change concerns it, and then
/// the search goes on after that change: there are two a year, over at most 20,000 years, and each is left at most
/// twice.
const MOST_STEPS: u32 = 4 * 20_000;

/// The times that clocks show twice: those from `begin`, and not `end` any more.
struct Twice {
    begin: Wall,
    end: Wall,
    before: i64,
    after: i64,
    is_second: bool,
}

#[allow(private_bounds, reason = "there are two kinds of times on the wall, and no others")]
impl<T: WallTimes> InZone<T> {
    #[inline]
    pub(super) fn search(&self, last: Timestamp) -> Option<Timestamp> {
        let second = floor(last);
        let wall = Wall(second + offset_at(&self.zone, last));
        let (gap, overlap) = (self.gap(), self.overlap());
        let shifted = if gap == Gap::Shift { self.shifted(second) } else { None };
        // Where each time runs at its first, times before this one have run.
        let from = if overlap == Overlap::First { Ok(wall) } else { self.in_overlap(second, wall, overlap) };
        let found = match from {
            Ok(wall) => self.search_from(second, wall, gap, overlap),
            Err(found) => Some(found),
        };
        timestamp(match (shifted, found) {
            (Some(shifted), Some(found)) => shifted.min(found),
            (shifted, found) => shifted.or(found)?,
        })
    }

    /// The first instant after `last` of those times on the wall that are later than `wall`.
    #[inline]
    fn search_from(&self, last: i64, mut wall: Wall, gap: Gap, overlap: Overlap) -> Option<i64> {
        let mut steps = 0;
        loop {
            let next = self.times.next(wall)?;
            // From here on only if clocks change.
            let found = match shown(&self.zone, next)? {
                Shown::Once { offset } => Ok(next.0 - offset),
                Shown::Never { before, after } => self.in_gap(next, before, after, gap, overlap),
                Shown::Twice { before, after } => self.at_overlap(last, next, before, after, overlap),
            };
            match found {
                Ok(found) if found > last => return Some(found),
                Ok(_) => wall = next,
                Err(leave_out_to) => wall = leave_out_to.max(next),
            }
            steps += 1;
            debug_assert!(steps <= MOST_STEPS, "a search that goes on and on");
            if steps > MOST_STEPS {
                return None;
            }
        }
    }

    /// When a time runs that clocks do not show, or the last time on the wall that they do not.
    #[cold]
    fn in_gap(&self, wall: Wall, before: i64, after: i64, gap: Gap, overlap: Overlap) -> Result<i64, Wall> {
        // A second before it would be shown by the clock that has gone forward, which is before the change.
        let Some(change) = change_after(&self.zone, wall.0 - after - 1, before, after) else {
            return Err(wall);
        };
        let end = Wall(change + after);
        match gap {
            Gap::AfterGap => Ok(change),
            Gap::Skip => Err(Wall(end.0 - 1)),
            Gap::Shift => {
                let shifted = wall.0 - before;
                // One that is shown may come sooner.
                let shown = self.search_from(change - 1, Wall(end.0 - 1), Gap::Skip, overlap);
                Ok(shown.map_or(shifted, |shown| shown.min(shifted)))
            }
        }
    }

    /// When a time runs that clocks show twice, and that is later on the wall than `last`.
    #[cold]
    fn at_overlap(
        &self,
        last: i64,
        wall: Wall,
        before: i64,
        after: i64,
        overlap: Overlap,
    ) -> Result<i64, Wall> {
        let first = wall.0 - before;
        if overlap == Overlap::Second {
            return Ok(wall.0 - after);
        }
        if first > last {
            return Ok(first);
        }
        // It is the second time that clocks show it: all of them have run.
        let change = change_after(&self.zone, first, before, after);
        Err(change.map_or(wall, |change| Wall(change + before - 1)))
    }

    /// What runs next if clocks show the time of `second` twice, or the time on the wall from which to go on.
    fn in_overlap(&self, second: i64, wall: Wall, overlap: Overlap) -> Result<Wall, i64> {
        let Some(twice) = self.twice(second, wall) else { return Ok(wall) };
        let next = |wall: Wall, offset: i64| {
            let next = self.times.next(wall).filter(|&next| next < twice.end);
            next.map(|next| next.0 - offset)
        };
        if twice.is_second {
            if let Some(found) = next(wall, twice.after) {
                return Err(found);
            }
        } else {
            if overlap == Overlap::Both
                && let Some(found) = next(wall, twice.before)
            {
                return Err(found);
            }
            if let Some(found) = next(Wall(twice.begin.0 - 1), twice.after) {
                return Err(found);
            }
        }
        Ok(Wall(twice.end.0 - 1))
    }

    #[inline]
    fn twice(&self, second: i64, wall: Wall) -> Option<Twice> {
        let Shown::Twice { before, after } = shown(&self.zone, wall)? else { return None };
        let change = change_after(&self.zone, wall.0 - before, before, after)?;
        Some(Twice {
            begin: Wall(change + after),
            end: Wall(change + before),
            before,
            after,
            is_second: second >= change,
        })
    }

    /// The next of those times that a gap just before `second` has shifted.
    fn shifted(&self, second: i64) -> Option<i64> {
        let (change, before, after) = last_gap(&self.zone, second)?;
        let length = after - before;
        if second >= change + length {
            return None;
        }
        let next = self.times.next(Wall(second + before))?;
        (next < Wall(change + after)).then_some(next.0 - before)
    }
}
