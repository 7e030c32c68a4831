//! Maps times on the wall to instants of a zone, even where a clock change leaves a time out or repeats it.

mod next_instant;

use std::fmt;

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
pub use next_instant::{Gap, Overlap};

use crate::rule::Rule;
use crate::text::zone_name;
use crate::wall::Wall;

/// Times on the wall, without a zone: [`Cron`](crate::Cron) and [`Calendar`](crate::Calendar), and no other type.
pub(crate) trait WallTimes {
    /// The first time that is later than `last`; `None` if there is none until the end of the year 9999.
    fn next(&self, last: Wall) -> Option<Wall>;

    /// Whether it runs by real time.
    fn is_interval(&self) -> bool;

    fn describe(&self) -> String;
}

/// A rule by the clocks of a time zone, from [`Cron::in_zone`](crate::Cron::in_zone) or
/// [`Calendar::in_zone`](crate::Calendar::in_zone). It is a [`Rule`].
///
/// # The two odd days of the year
///
/// | | fixed times | [intervals](crate::Cron::is_interval) |
/// |---|---|---|
/// | clocks go forward over a time | it runs once, at the first instant after the gap; two times in one gap are one run | no run: that time does not pass |
/// | clocks go back over a time | it runs at the first of the two | it runs both times, in the order of real time |
/// | to change this | [`with_gap`](Self::with_gap), [`with_overlap`](Self::with_overlap) | the same |
///
/// The table holds for gaps of any length: half an hour (Lord Howe), at midnight (Santiago), and a whole day (Apia in
/// 2011: a run of the skipped day comes at the midnight after it). Only the times that clocks show before and after a
/// change matter, and not whether a zone calls the change daylight saving time.
///
/// # Examples
///
/// ```
/// use jiff::{Timestamp, tz::TimeZone};
/// use timingwheel_calendar::{Cron, Gap, Rule};
///
/// let london = TimeZone::get("Europe/London")?;
/// let rule = Cron::parse("30 1 * * *")?.in_zone(london);
/// // On 29 March clocks go from 01:00 to 02:00.
/// let before: Timestamp = "2026-03-28T12:00:00Z".parse()?;
/// assert_eq!(rule.after(before), Some("2026-03-29T02:00:00+01:00".parse()?));
///
/// // Somebody wants no run on that day.
/// let rule = rule.with_gap(Gap::Skip);
/// assert_eq!(rule.after(before), Some("2026-03-30T01:30:00+01:00".parse()?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct InZone<T> {
    times: T,
    zone: TimeZone,
    /// `None`: as the table has it.
    gap: Option<Gap>,
    overlap: Option<Overlap>,
}

impl<T> InZone<T> {
    pub(crate) const fn new(times: T, zone: TimeZone) -> Self {
        Self { times, zone, gap: None, overlap: None }
    }

    /// The times on the wall.
    #[must_use]
    pub const fn times(&self) -> &T {
        &self.times
    }

    /// The zone by whose clocks the rule runs.
    #[must_use]
    pub const fn zone(&self) -> &TimeZone {
        &self.zone
    }

    /// The same times by the clocks of another zone, for example for a user who has moved.
    #[must_use]
    pub fn with_zone(mut self, zone: TimeZone) -> Self {
        self.zone = zone;
        self
    }

    /// Chooses the behaviour for times that a clock change leaves out, in place of the [table](Self)'s.
    #[must_use]
    pub fn with_gap(mut self, gap: Gap) -> Self {
        self.gap = Some(gap);
        self
    }

    /// Chooses the behaviour for times that come twice, in place of the [table](Self)'s.
    #[must_use]
    pub fn with_overlap(mut self, overlap: Overlap) -> Self {
        self.overlap = Some(overlap);
        self
    }

    /// The choices, if any.
    pub(crate) const fn chosen(&self) -> (Option<Gap>, Option<Overlap>) {
        (self.gap, self.overlap)
    }
}

#[allow(private_bounds, reason = "there are two kinds of times on the wall, and no others")]
impl<T: WallTimes> InZone<T> {
    /// The behaviour for times that a clock change leaves out.
    #[must_use]
    pub fn gap(&self) -> Gap {
        self.gap.unwrap_or(if self.times.is_interval() { Gap::Skip } else { Gap::AfterGap })
    }

    /// The behaviour for times that come twice.
    #[must_use]
    pub fn overlap(&self) -> Overlap {
        self.overlap.unwrap_or(if self.times.is_interval() { Overlap::Both } else { Overlap::First })
    }

    /// Describes the rule in a sentence, and tells its next five instants after `last`.
    ///
    /// # Examples
    ///
    /// ```
    /// use jiff::tz::TimeZone;
    /// use timingwheel_calendar::Cron;
    ///
    /// let rule = Cron::parse("0 9 29 2 *")?.in_zone(TimeZone::get("Asia/Tokyo")?);
    /// let description = rule.describe_from("2026-01-01T00:00:00Z".parse()?);
    /// assert_eq!(description.sentence, "at 09:00 on the 29th of the month, in February, by the clocks of Asia/Tokyo");
    /// assert_eq!(
    ///     description.to_string().lines().nth(1),
    ///     Some("  Tue 29 Feb 2028 09:00:00 JST")
    /// );
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn describe_from(&self, last: Timestamp) -> Description {
        let sentence = format!("{}, by the clocks of {}", self.times.describe(), zone_name(&self.zone));
        let instants = self.upcoming(last).take(TOLD).map(|at| at.to_zoned(self.zone.clone())).collect();
        Description { sentence, instants }
    }
}

impl<T: WallTimes> Rule for InZone<T> {
    #[inline]
    fn after(&self, last: Timestamp) -> Option<Timestamp> {
        self.next_instant(last)
    }

    fn is_interval(&self) -> bool {
        self.times.is_interval()
    }
}

/// How many instants a description has.
const TOLD: usize = 5;

/// The meaning of a rule, and its next instants, from [`InZone::describe_from`].
///
/// Its `Display` has the sentence in the first line and an instant in each of the following.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Description {
    /// The meaning of the rule.
    pub sentence: String,
    /// The next instants: five, or fewer if there are no more.
    pub instants: Vec<Zoned>,
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)?;
        if self.instants.is_empty() {
            f.write_str("\n  never")?;
        }
        for instant in &self.instants {
            write!(f, "\n  {}", instant.strftime("%a %e %b %Y %H:%M:%S %Z"))?;
        }
        Ok(())
    }
}
