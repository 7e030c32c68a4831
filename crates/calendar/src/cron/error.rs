//! The error of an expression: the mistake, and its place.

use std::error::Error;
use std::fmt;
use std::ops::Range;

use super::field::{CronField, Dialect};
use crate::text::Mistake;

/// Why a text is not a cron expression.
///
/// Its `Display` has three lines: the problem, the expression, and a mark under the place. If a [field](Self::field) is
/// wrong, a fourth line lists the values that may stand in it.
///
/// # Examples
///
/// ```
/// use timingwheel_calendar::{Cron, CronField};
///
/// let error = Cron::parse("0 25 * * *").unwrap_err();
/// assert_eq!(error.field(), Some(CronField::Hour));
/// assert_eq!(error.place(), 2..4);
/// assert_eq!(
///     error.to_string(),
///     "25 is not an hour\n  \
///        0 25 * * *\n    \
///          ^^\n\
///      the hour takes 0 to 23, `*`, ranges as 9-17, steps as */2 or 8/4, lists of these as 8,12,18"
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CronError {
    mistake: Box<Mistake>,
    field: Option<CronField>,
}

impl CronError {
    #[cold]
    pub(super) fn new(
        dialect: Dialect,
        expression: &str,
        place: Range<usize>,
        field: Option<CronField>,
        problem: impl Into<String>,
    ) -> Self {
        let hint = field.map(|field| format!("the {field} takes {}", field.takes(dialect)));
        let mistake = Mistake { text: expression.into(), place, problem: problem.into(), hint };
        Self { mistake: Box::new(mistake), field }
    }

    #[cold]
    pub(super) fn too_long(expression: &str, most: usize) -> Self {
        Self { mistake: Box::new(Mistake::too_long("an expression", expression, most)), field: None }
    }

    /// The text that was given, or the beginning of one that is too long.
    #[must_use]
    pub fn expression(&self) -> &str {
        &self.mistake.text
    }

    /// The place of the mistake in [`expression`](Self::expression), in bytes. It is empty where something is missing,
    /// and if the expression is too long.
    #[must_use]
    pub fn place(&self) -> Range<usize> {
        self.mistake.place.clone()
    }

    /// The field that is wrong; `None` if it is the number of fields, or the expression as a whole.
    #[must_use]
    pub fn field(&self) -> Option<CronField> {
        self.field
    }

    pub(crate) fn into_mistake(self) -> Mistake {
        *self.mistake
    }
}

impl fmt::Display for CronError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.mistake.fmt(f)
    }
}

impl Error for CronError {}
