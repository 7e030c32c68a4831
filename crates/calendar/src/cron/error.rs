//! What is wrong with an expression, and where.

use std::error::Error;
use std::fmt;
use std::ops::Range;

use super::field::{CronField, Dialect};

/// Why a text is no cron expression.
///
/// Its `Display` has three lines: what is wrong, the expression, and a mark under the place. A fourth says what may
/// stand in the field.
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
///     "25 is no hour\n  \
///        0 25 * * *\n    \
///          ^^\n\
///      the hour takes 0 to 23, `*`, ranges as 9-17, steps as */2 or 8/4, lists of these as 8,12,18"
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CronError(Box<Inner>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Inner {
    expression: String,
    place: Range<usize>,
    field: Option<CronField>,
    problem: String,
    dialect: Dialect,
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
        Self(Box::new(Inner {
            expression: expression.into(),
            place,
            field,
            problem: problem.into(),
            dialect,
        }))
    }

    /// The text that was given.
    #[must_use]
    pub fn expression(&self) -> &str {
        &self.0.expression
    }

    /// Where in the text, in bytes. Empty at its end if something is missing there.
    #[must_use]
    pub fn place(&self) -> Range<usize> {
        self.0.place.clone()
    }

    /// In which field, or `None` if their number is wrong.
    #[must_use]
    pub fn field(&self) -> Option<CronField> {
        self.0.field
    }

    /// What is wrong.
    pub(crate) fn problem(&self) -> &str {
        &self.0.problem
    }

    /// What may stand in the field.
    pub(crate) fn hint(&self) -> Option<String> {
        let Inner { field, dialect, .. } = &*self.0;
        field.map(|field| format!("the {field} takes {}", field.takes(*dialect)))
    }
}

impl fmt::Display for CronError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { expression, place, problem, .. } = &*self.0;
        // A line is a line, whatever stands in it.
        let shown: String = expression.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let before = expression[..place.start].chars().count();
        let marks = expression[place.clone()].chars().count().max(1);
        write!(f, "{problem}\n  {shown}\n  {:before$}{:^<marks$}", "", "")?;
        self.hint().iter().try_for_each(|hint| write!(f, "\n{hint}"))
    }
}

impl Error for CronError {}
