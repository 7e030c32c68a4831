//! What becomes of a time on the wall in a gap, which clocks never show, or in an overlap, which they show twice.

use super::change::{Shown, change_after, last_gap, shown};
use super::policy::{Gap, Overlap};
use super::{InZone, WallTimes};
use crate::wall::Wall;

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
    /// When a time runs that clocks do not show, or the last time on the wall that they do not.
    #[cold]
    pub(super) fn in_gap(
        &self,
        wall: Wall,
        before: i64,
        after: i64,
        gap: Gap,
        overlap: Overlap,
    ) -> Result<i64, Wall> {
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
                let shown = self.next_instant_from(change - 1, Wall(end.0 - 1), Gap::Skip, overlap);
                Ok(shown.map_or(shifted, |shown| shown.min(shifted)))
            }
        }
    }

    /// When a time runs that clocks show twice, and that is later on the wall than `last`.
    #[cold]
    pub(super) fn at_overlap(
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
    pub(super) fn in_overlap(&self, second: i64, wall: Wall, overlap: Overlap) -> Result<Wall, i64> {
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
    pub(super) fn shifted(&self, second: i64) -> Option<i64> {
        let (change, before, after) = last_gap(&self.zone, second)?;
        let length = after - before;
        if second >= change + length {
            return None;
        }
        let next = self.times.next(Wall(second + before))?;
        (next < Wall(change + after)).then_some(next.0 - before)
    }
}
