//! Rules that begin and end.

use jiff::Timestamp;

use super::Plan;
use super::except::before;
use crate::rule::Rule;

/// A rule from an instant, to an instant, and so many times.
#[derive(Clone, Debug)]
pub(super) struct Limits {
    pub(super) rule: Plan,
    pub(super) from: Option<Timestamp>,
    pub(super) until: Option<Timestamp>,
    pub(super) times: Option<u32>,
    /// The last of so many, which follows from the others.
    last: Option<Timestamp>,
}

/// What is found from the others counts with them.
impl PartialEq for Limits {
    fn eq(&self, other: &Self) -> bool {
        let Self { rule, from, until, times, last: _ } = self;
        (rule, from, until, times) == (&other.rule, &other.from, &other.until, &other.times)
    }
}

impl Eq for Limits {}

impl Limits {
    pub(super) fn new(
        rule: Plan,
        from: Option<Timestamp>,
        until: Option<Timestamp>,
        times: Option<u32>,
    ) -> Self {
        let mut limits = Self { rule, from, until, times, last: None };
        if let Some(times) = times {
            let start = from.map_or(Timestamp::MIN, before);
            // A rule that has fewer ends by itself.
            let before_last = usize::try_from(times - 1).unwrap_or(usize::MAX);
            limits.last = limits.upcoming(start).nth(before_last);
        }
        limits
    }
}

impl Rule for Limits {
    fn after(&self, last: Timestamp) -> Option<Timestamp> {
        let last = self.from.map_or(last, |from| last.max(before(from)));
        let found = self.rule.after(last)?;
        let is_in_time = |end: Option<Timestamp>| end.is_none_or(|end| found <= end);
        (is_in_time(self.until) && is_in_time(self.last)).then_some(found)
    }
}
