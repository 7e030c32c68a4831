//! The next instant of times on the wall, by the clocks of a zone. A clock change makes a gap of times that clocks never
//! show, or an overlap of times that they show twice. Only this file knows of either.

use jiff::Timestamp;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};

use super::{InZone, WallTimes};
use crate::wall::Wall;

/// The run of a time that clocks never show, because they go forward over it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Gap {
    /// It runs at the first instant after the gap; all times of one gap are one run. Fixed times do so unless told
    /// otherwise, and Vixie's cron does.
    AfterGap,
    /// It does not run. Intervals do so unless told otherwise, and all of systemd's timers.
    Skip,
}

/// The runs of a time that clocks show twice, because they go back over it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Overlap {
    /// It runs at the first. Fixed times do so unless told otherwise.
    First,
    /// It runs at the second.
    Second,
    /// It runs both times. Intervals do so unless told otherwise.
    Both,
}

/// No search looks at more times on the wall. A search passes a time only if a clock change concerns it, and then goes on
/// after that change: there are two a year, over at most 20,000 years, and a search passes each at most twice.
const MOST_STEPS: u32 = 4 * 20_000;

/// How a time on the wall stands to the instants of a zone. Offsets are in seconds east of UTC.
#[derive(Clone, Copy, Debug)]
enum Shown {
    Once { offset: i64 },
    Never { before: i64, after: i64 },
    Twice { before: i64, after: i64 },
}

/// `None` if no [`Timestamp`] can hold it.
fn timestamp(second: i64) -> Option<Timestamp> {
    Timestamp::from_second(second).ok()
}

fn seconds(offset: Offset) -> i64 {
    offset.seconds().into()
}

/// When clocks show this. `None` outside of jiff's years.
#[inline]
fn shown(zone: &TimeZone, wall: Wall) -> Option<Shown> {
    Some(match zone.to_ambiguous_timestamp(wall.to_datetime()?).offset() {
        AmbiguousOffset::Unambiguous { offset } => Shown::Once { offset: seconds(offset) },
        AmbiguousOffset::Gap { before, after } => {
            Shown::Never { before: seconds(before), after: seconds(after) }
        }
        AmbiguousOffset::Fold { before, after } => {
            Shown::Twice { before: seconds(before), after: seconds(after) }
        }
    })
}

/// The first change after a second by which clocks go from the one offset to the other.
fn change_after(zone: &TimeZone, second: i64, before: i64, after: i64) -> Option<i64> {
    /// Some changes are of names only, and some follow each other within a day.
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

#[allow(private_bounds, reason = "there are two kinds of times on the wall, and no others")]
impl<T: WallTimes> InZone<T> {
    #[inline]
    pub(super) fn next_instant(&self, last: Timestamp) -> Option<Timestamp> {
        // The last full second, also before 1970, where fractions are negative.
        let second = last.as_second() - i64::from(last.subsec_nanosecond() < 0);
        let mut wall = Wall(second + seconds(self.zone.to_offset(last)));
        let (gap, overlap) = (self.gap(), self.overlap());
        // If each time runs at its first, all times before this one have run.
        if overlap != Overlap::First {
            match self.in_overlap(second, wall, overlap) {
                Ok(found) => return timestamp(found),
                Err(go_on_from) => wall = go_on_from,
            }
        }
        let mut steps = 0;
        loop {
            let next = self.times.next(wall)?;
            let found = match shown(&self.zone, next)? {
                Shown::Once { offset } => Ok(next.0 - offset),
                Shown::Never { before, after } => self.in_gap(next, before, after, gap),
                Shown::Twice { before, after } => self.at_overlap(second, next, before, after, overlap),
            };
            match found {
                Ok(found) if found > second => return timestamp(found),
                Ok(_) => wall = next,
                Err(go_on_from) => wall = go_on_from.max(next),
            }
            steps += 1;
            debug_assert!(steps <= MOST_STEPS, "a search that goes on and on");
            if steps > MOST_STEPS {
                return None;
            }
        }
    }

    /// When a time runs that clocks do not show, or the last time on the wall that they do not show.
    #[cold]
    fn in_gap(&self, wall: Wall, before: i64, after: i64, gap: Gap) -> Result<i64, Wall> {
        // The clock that has gone forward would show the time at a second before the change. Search from before that.
        let change = change_after(&self.zone, wall.0 - after - 1, before, after).ok_or(wall)?;
        match gap {
            Gap::AfterGap => Ok(change),
            Gap::Skip => Err(Wall(change + after - 1)),
        }
    }

    /// When a time runs that clocks show twice, or the time on the wall from which to go on.
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
        // Clocks show it for the second time: all of the overlap have run.
        let change = change_after(&self.zone, first, before, after);
        Err(change.map_or(wall, |change| Wall(change + before - 1)))
    }

    /// The next run within an overlap, if clocks show the time of `second` twice; else the time on the wall from which to
    /// go on.
    fn in_overlap(&self, second: i64, wall: Wall, overlap: Overlap) -> Result<i64, Wall> {
        let Some(Shown::Twice { before, after }) = shown(&self.zone, wall) else { return Err(wall) };
        let change = change_after(&self.zone, wall.0 - before, before, after).ok_or(wall)?;
        // Clocks show the times from `begin` to `end`, `end` excluded, twice.
        let (begin, end) = (Wall(change + after), Wall(change + before));
        let next = |wall: Wall, offset: i64| {
            let next = self.times.next(wall).filter(|&next| next < end);
            next.map(|next| next.0 - offset)
        };
        let found = if second >= change {
            next(wall, after)
        } else {
            let first = if overlap == Overlap::Both { next(wall, before) } else { None };
            first.or_else(|| next(Wall(begin.0 - 1), after))
        };
        found.ok_or(Wall(end.0 - 1))
    }
}
