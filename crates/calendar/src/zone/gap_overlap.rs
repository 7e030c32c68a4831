//! Clock changes of a zone, and what becomes of a time on the wall in a gap, which clocks never show, or in an overlap,
//! which they show twice.

use jiff::Timestamp;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};

use super::{InZone, WallTimes};
use crate::wall::Wall;

/// What becomes of a time that clocks never show, because they go forward over it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Gap {
    /// It runs at the first instant after the gap; all times of one gap are one run. What fixed times do unless told
    /// otherwise, and what Vixie's cron does.
    AfterGap,
    /// It runs later by the length of the gap: 02:30 at 03:30. What RFC 5545 and jiff's own arithmetic do.
    Shift,
    /// It does not run. What intervals do unless told otherwise, and what systemd does with all.
    Skip,
}

/// What becomes of a time that clocks show twice, because they go back over it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Overlap {
    /// It runs at the first. What fixed times do unless told otherwise.
    First,
    /// It runs at the second.
    Second,
    /// It runs both times. What intervals do unless told otherwise.
    Both,
}

impl Gap {
    /// As in the text of a plan.
    pub(crate) const NAMES: [(&str, Self); 3] =
        [("after", Self::AfterGap), ("shift", Self::Shift), ("skip", Self::Skip)];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::AfterGap => "after",
            Self::Shift => "shift",
            Self::Skip => "skip",
        }
    }
}

impl Overlap {
    /// As in the text of a plan.
    pub(crate) const NAMES: [(&str, Self); 3] =
        [("first", Self::First), ("second", Self::Second), ("both", Self::Both)];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Second => "second",
            Self::Both => "both",
        }
    }
}

/// How a time on the wall stands to the instants of a zone. Offsets are in seconds east of UTC.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shown {
    Once { offset: i64 },
    Never { before: i64, after: i64 },
    Twice { before: i64, after: i64 },
}

/// `None` for what no [`Timestamp`] can hold.
pub(super) fn timestamp(second: i64) -> Option<Timestamp> {
    Timestamp::from_second(second).ok()
}

/// The last full second, also of an instant before 1970, whose fractions are negative.
#[inline]
pub(super) fn floor(instant: Timestamp) -> i64 {
    instant.as_second() - i64::from(instant.subsec_nanosecond() < 0)
}

fn seconds(offset: Offset) -> i64 {
    offset.seconds().into()
}

#[inline]
pub(super) fn offset_at(zone: &TimeZone, instant: Timestamp) -> i64 {
    seconds(zone.to_offset(instant))
}

/// When clocks show this. `None` outside of jiff's years.
#[inline]
pub(super) fn shown(zone: &TimeZone, wall: Wall) -> Option<Shown> {
    let shown = match zone.to_ambiguous_timestamp(wall.to_datetime()?).offset() {
        AmbiguousOffset::Unambiguous { offset } => Shown::Once { offset: seconds(offset) },
        AmbiguousOffset::Gap { before, after } => {
            Shown::Never { before: seconds(before), after: seconds(after) }
        }
        AmbiguousOffset::Fold { before, after } => {
            Shown::Twice { before: seconds(before), after: seconds(after) }
        }
    };
    Some(shown)
}

/// The first change after a second by which clocks go from the one offset to the other.
pub(super) fn change_after(zone: &TimeZone, second: i64, before: i64, after: i64) -> Option<i64> {
    /// Changes that change names only, and such as follow each other within a day, are passed by.
    const FEW: usize = 8;
    let mut offset = before;
    for change in zone.following(timestamp(second)?).take(FEW) {
        let next = seconds(change.offset());
        if offset == before && next == after {
            return Some(change.timestamp().as_second());
        }
        offset = next;
    }
    None
}

/// The last change at this second or before it by which clocks went forward: when, and from which offset to which.
pub(super) fn last_gap(zone: &TimeZone, second: i64) -> Option<(i64, i64, i64)> {
    // A gap is at most a day long, so an older one does not matter.
    let change = zone.preceding(timestamp(second + 1)?).next()?;
    let at = change.timestamp().as_second();
    let (before, after) = (offset_at(zone, timestamp(at - 1)?), seconds(change.offset()));
    (before < after).then_some((at, before, after))
}

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
