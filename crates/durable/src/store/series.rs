//! How a series goes on, as it is stored.

use jiff::Timestamp;
use timingwheel_calendar::Missed;

use crate::id::{floor_millis, timestamp};

/// A rule by which a timer comes again and again, and where it stands.
///
/// To a store these are three texts: the rule, the policy for missed runs, and the [standing](Self::standing). Two series
/// are the same if rule and policy are equal as texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Series {
    /// The rule, with its zone, as a `Plan` of `timingwheel-calendar` prints it.
    pub rule: String,
    /// What becomes of runs that were missed.
    pub missed: Missed,
    /// The millisecond after which the rule had the pending run as its first.
    pub(crate) after_ms: Option<i64>,
    /// What was missed up to a millisecond since 1970, of which so many may still run.
    pub(crate) catching_up: Option<(i64, u32)>,
}

impl Series {
    /// A series that has missed nothing yet.
    #[must_use]
    pub const fn new(rule: String, missed: Missed) -> Self {
        Self { rule, missed, after_ms: None, catching_up: None }
    }

    /// The pending run is the first that the rule had after this instant, by the zone data of the time when it was planned.
    ///
    /// With it a runner finds a run that its rule would not plan by today's clock and zone data.
    #[must_use]
    pub fn planned_after(mut self, last: Timestamp) -> Self {
        self.after_ms = Some(floor_millis(last));
        self
    }

    /// The instant that [`planned_after`](Self::planned_after) has set.
    pub(crate) fn after(&self) -> Option<Timestamp> {
        self.after_ms.map(timestamp)
    }

    /// Where it stands, as a text that changes from run to run.
    #[must_use]
    pub fn standing(&self) -> String {
        let after = self.after_ms.map(|after| format!("after {after}"));
        let more = self.catching_up.map(|(until, left)| format!("{left} more up to {until}"));
        after.into_iter().chain(more).collect::<Vec<_>>().join("; ")
    }

    /// The series of three texts.
    ///
    /// # Errors
    /// [`SeriesError`] with the text that is not as [`standing`](Self::standing) or [`Missed`] prints it. The rule is not
    /// read.
    pub fn from_texts(rule: String, missed: &str, standing: &str) -> Result<Self, SeriesError> {
        let missed = missed.parse().map_err(|_| SeriesError(missed.to_owned()))?;
        let mut series = Self::new(rule, missed);
        let error = || SeriesError(standing.to_owned());
        for part in standing.split("; ").filter(|part| !part.is_empty()) {
            if let Some(after) = part.strip_prefix("after ") {
                series.after_ms = Some(after.parse().map_err(|_| error())?);
            } else {
                let (left, until) = part.split_once(" more up to ").ok_or_else(error)?;
                let more = until.parse().ok().zip(left.parse().ok());
                series.catching_up = Some(more.ok_or_else(error)?);
            }
        }
        Ok(series)
    }
}

/// A text that is no part of a series.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeriesError(String);

impl std::fmt::Display for SeriesError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "a series must have a policy as `each 3` and a standing as `after 5; 2 more up to 9`, got {:?}",
            self.0
        )
    }
}

impl std::error::Error for SeriesError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_is_read_back_as_it_was_written() {
        let mut series = Series::new("cron 0 9 * * * in UTC".into(), Missed::each(7));
        let read = |series: &Series| {
            Series::from_texts(series.rule.clone(), &series.missed.to_string(), &series.standing())
        };
        assert_eq!(read(&series).as_ref(), Ok(&series));
        series.catching_up = Some((-5, 3));
        assert_eq!(read(&series).as_ref(), Ok(&series));
        series = series.planned_after(timestamp(-7));
        assert_eq!(read(&series).as_ref(), Ok(&series));
        for (missed, standing) in
            [("each", ""), ("each 1", "after x"), ("each 1", "3 more"), ("each 1", "often")]
        {
            assert!(Series::from_texts(String::new(), missed, standing).is_err(), "{missed}, {standing}");
        }
    }
}
