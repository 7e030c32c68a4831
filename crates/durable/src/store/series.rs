//! How a series goes on, as it is stored.

use crate::missed::Missed;

/// A rule by which a timer comes again and again, and where it stands.
///
/// To a store it is a line of text, and compared: [`Display`](std::fmt::Display) writes it, and
/// [`FromStr`](std::str::FromStr) reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Series {
    /// The rule, with its zone, as a `Plan` of `timingwheel-calendar` prints it.
    pub rule: String,
    /// What becomes of runs that were missed.
    pub missed: Missed,
    /// What was missed up to a millisecond since 1970, of which so many may still run.
    pub(crate) catching_up: Option<(i64, u32)>,
}

impl Series {
    /// A series that has missed nothing yet.
    #[must_use]
    pub const fn new(rule: String, missed: Missed) -> Self {
        Self { rule, missed, catching_up: None }
    }

    /// Whether both have the same rule and the same policy, wherever they stand.
    #[must_use]
    pub fn has_the_rule_of(&self, other: &Self) -> bool {
        self.rule == other.rule && self.missed == other.missed
    }
}

impl std::fmt::Display for Series {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { rule, missed, catching_up } = self;
        write!(f, "{missed}; ")?;
        if let Some((until, left)) = catching_up {
            write!(f, "{left} more up to {until}; ")?;
        }
        f.write_str(rule)
    }
}

/// A text that is no series.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeriesError(String);

impl std::fmt::Display for SeriesError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a series must be a policy, `; ` and a rule, got {:?}", self.0)
    }
}

impl std::error::Error for SeriesError {}

impl std::str::FromStr for Series {
    type Err = SeriesError;

    fn from_str(text: &str) -> Result<Self, SeriesError> {
        let error = || SeriesError(text.to_owned());
        let (missed, rest) = text.split_once("; ").ok_or_else(error)?;
        let missed = missed.parse().map_err(|_| error())?;
        let more = rest.split_once("; ").and_then(|(more, rule)| {
            let (left, until) = more.split_once(" more up to ")?;
            Some(((until.parse().ok()?, left.parse().ok()?), rule))
        });
        let (catching_up, rule) = match more {
            Some((more, rule)) => (Some(more), rule),
            None => (None, rest),
        };
        Ok(Self { rule: rule.to_owned(), missed, catching_up })
    }
}
