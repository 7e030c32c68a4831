//! Clock changes of a zone, in seconds.

use jiff::Timestamp;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};

use crate::wall::Wall;

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
