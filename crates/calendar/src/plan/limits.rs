//! Rules that begin and end.

use jiff::Timestamp;

use super::Plan;
use super::search::{Search, Steps, before};

/// What it may take to count what all `times` of a text say. It is about a second at the most.
pub(super) const MOST_STEPS: u64 = 16_000_000;

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
    pub(super) const fn new(rule: Plan, from: Option<Timestamp>, until: Option<Timestamp>) -> Self {
        Self { rule, from, until, times: None, last: None }
    }

    /// So many instants, at least one, from the first. It is an error if there are not steps enough to count them.
    pub(super) fn times(rule: Plan, from: Timestamp, times: u32, steps: &mut Steps) -> Result<Self, String> {
        let mut search = Search::new(&rule, before(from));
        let mut last = before(from);
        let mut left = times;
        // A rule that has fewer ends by itself.
        while left > 0 && let Some(found) = search.after(last, steps).map_err(|_| {
            format!(
                "{times} times: to count all times of a plan may take {MOST_STEPS} steps, and these are more"
            )
        })? {
            (last, left) = (found, left - 1);
        }
        Ok(Self {
            rule,
            from: Some(from),
            until: None,
            times: Some(times),
            last: (left == 0).then_some(last),
        })
    }

    /// The last instant that may be one.
    pub(super) fn end(&self) -> Option<Timestamp> {
        self.until.into_iter().chain(self.last).min()
    }
}
