//! The next instant of times on the wall, by the clocks of a zone.

use jiff::Timestamp;

use super::gap_overlap::{Gap, Overlap, Shown, floor, offset_at, shown, timestamp};
use super::{InZone, WallTimes};
use crate::wall::Wall;

/// No search looks at more times on the wall. A time is looked at and left only if a clock change concerns it, and then
/// the search goes on after that change: there are two a year, over at most 20,000 years, and each is left at most
/// twice.
const MOST_STEPS: u32 = 4 * 20_000;

#[allow(private_bounds, reason = "there are two kinds of times on the wall, and no others")]
impl<T: WallTimes> InZone<T> {
    #[inline]
    pub(super) fn next_instant(&self, last: Timestamp) -> Option<Timestamp> {
        let second = floor(last);
        let wall = Wall(second + offset_at(&self.zone, last));
        let (gap, overlap) = (self.gap(), self.overlap());
        let shifted = if gap == Gap::Shift { self.shifted(second) } else { None };
        // Where each time runs at its first, times before this one have run.
        let from = if overlap == Overlap::First { Ok(wall) } else { self.in_overlap(second, wall, overlap) };
        let found = match from {
            Ok(wall) => self.next_instant_from(second, wall, gap, overlap),
            Err(found) => Some(found),
        };
        timestamp(match (shifted, found) {
            (Some(shifted), Some(found)) => shifted.min(found),
            (shifted, found) => shifted.or(found)?,
        })
    }

    /// The first instant after `last` of those times on the wall that are later than `wall`.
    #[inline]
    pub(super) fn next_instant_from(
        &self,
        last: i64,
        mut wall: Wall,
        gap: Gap,
        overlap: Overlap,
    ) -> Option<i64> {
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
}
