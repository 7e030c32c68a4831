//! Rules that are put together, leave something out, begin and end.

use std::collections::BTreeSet;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::search::{Search, Steps, before};
use super::{Kind, Plan};

/// Puts rules together to a [`Plan`]. All rules of this crate have these methods.
///
/// # Examples
///
/// ```
/// use jiff::{Timestamp, tz::TimeZone};
/// use timingwheel_calendar::{Combine, Cron, Rule};
///
/// let zone = TimeZone::get("Europe/Berlin")?;
/// let at = |text| Cron::parse(text).map(|cron| cron.in_zone(zone.clone()));
/// // On weekdays at 9, on Saturdays at 11, five times.
/// let start: Timestamp = "2026-11-26T00:00:00Z".parse()?;
/// let plan = at("0 9 * * MON-FRI")?.or(at("0 11 * * SAT")?).times(5, start);
/// let days: Vec<String> =
///     plan.upcoming(start).map(|at| at.to_zoned(zone.clone()).strftime("%a %H:%M").to_string()).collect();
/// assert_eq!(days, ["Thu 09:00", "Fri 09:00", "Sat 11:00", "Mon 09:00", "Tue 09:00"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Combine: Into<Plan> {
    /// The instants of either rule. An instant that both have comes once.
    #[must_use]
    fn or(self, other: impl Into<Plan>) -> Plan {
        let mut plans = Vec::new();
        for plan in [self.into(), other.into()] {
            match plan.0 {
                Kind::Any(more) => plans.extend(more),
                _ => plans.push(plan),
            }
        }
        Plan(Kind::Any(plans))
    }

    /// The instants of this rule, except on the days on which the other rule has an instant, by the clocks of `zone`.
    /// Use it for holidays.
    ///
    /// It leaves out whole days, so that a search can skip a day at a time, and has at most as many steps as there are
    /// days until the year 9999. To leave out single instants use [`except_at`](Self::except_at).
    #[must_use]
    fn except_days_of(self, other: impl Into<Plan>, zone: TimeZone) -> Plan {
        Plan(Kind::ExceptDays(Box::new(ExceptDays { rule: self.into(), days_of: other.into(), zone })))
    }

    /// The instants of this rule, but for these, and those that were left out before.
    #[must_use]
    fn except_at(self, instants: impl IntoIterator<Item = Timestamp>) -> Plan {
        let (mut plan, mut instants) = (self.into(), instants.into_iter().peekable());
        match &mut plan.0 {
            _ if instants.peek().is_none() => plan,
            Kind::ExceptAt(except) => {
                except.instants.extend(instants);
                plan
            }
            _ => Plan(Kind::ExceptAt(Box::new(ExceptAt { rule: plan, instants: instants.collect() }))),
        }
    }

    /// The instants of this rule from one instant to another; both are included.
    #[must_use]
    fn between(self, from: Timestamp, until: Timestamp) -> Plan {
        Plan(Kind::Limits(Box::new(Limits::new(self.into(), Some(from), Some(until)))))
    }

    /// The instants of this rule up to this one, which is included.
    #[must_use]
    fn until(self, until: Timestamp) -> Plan {
        Plan(Kind::Limits(Box::new(Limits::new(self.into(), None, Some(until)))))
    }

    /// The first `n` instants of this rule from `from` on; `from` itself counts.
    ///
    /// They are counted when the plan is made, or read: this takes as long as the search for `n` instants. A text that takes
    /// more than about a second is refused, and so such a plan is not serialised.
    ///
    /// # Panics
    /// If `n` is 0 or more than [`MOST_TIMES`](Self::MOST_TIMES).
    #[must_use]
    #[track_caller]
    fn times(self, n: u32, from: Timestamp) -> Plan {
        let most = Self::MOST_TIMES;
        assert!((1..=most).contains(&n), "{n} times: it takes 1 to {most}");
        // Nothing takes so many steps as there are.
        let limits = Limits::times(self.into(), from, n, &mut Steps::unlimited());
        Plan(Kind::Limits(Box::new(limits.unwrap_or_else(|problem| panic!("{problem}")))))
    }

    /// The most that [`times`](Self::times) takes, so that no text takes long to read.
    const MOST_TIMES: u32 = 100_000;
}

impl<T: Into<Plan>> Combine for T {}

/// A rule but for the days of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ExceptDays {
    pub(super) rule: Plan,
    pub(super) days_of: Plan,
    pub(super) zone: TimeZone,
}

/// A rule but for some instants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ExceptAt {
    pub(super) rule: Plan,
    /// At least one.
    pub(super) instants: BTreeSet<Timestamp>,
}

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
