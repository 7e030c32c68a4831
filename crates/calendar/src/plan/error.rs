//! What is wrong with the text of a plan, and where.

use std::error::Error;
use std::fmt;
use std::ops::Range;

/// Why a text is no plan.
///
/// Its `Display` has three lines: what is wrong, the text, and a mark under the place. If a field of a cron expression is
/// wrong, a fourth says what may stand there.
///
/// # Examples
///
/// ```
/// use timingwheel_calendar::Plan;
///
/// let error = "every 2 fortnights from 2026-01-05 in UTC".parse::<Plan>().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "fortnights is no unit: seconds, minutes, hours, days, weeks, months and years are\n  \
///        every 2 fortnights from 2026-01-05 in UTC\n          \
///                ^^^^^^^^^^"
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanError {
    text: String,
    place: Range<usize>,
    problem: String,
    hint: Option<String>,
}

impl PlanError {
    pub(super) fn new(text: &str, place: Range<usize>, problem: String) -> Self {
        Self { text: text.into(), place, problem, hint: None }
    }

    /// What may stand there.
    pub(super) fn with_hint(self, hint: Option<String>) -> Self {
        Self { hint, ..self }
    }

    /// Where in the text, in bytes. Empty at its end if something is missing there.
    #[must_use]
    pub fn place(&self) -> Range<usize> {
        self.place.clone()
    }
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { text, place, problem, hint } = self;
        let shown: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let before = text[..place.start].chars().count();
        let marks = text[place.clone()].chars().count().max(1);
        write!(f, "{problem}\n  {shown}\n  {:before$}{:^<marks$}", "", "")?;
        hint.iter().try_for_each(|hint| write!(f, "\n{hint}"))
    }
}

impl Error for PlanError {}
