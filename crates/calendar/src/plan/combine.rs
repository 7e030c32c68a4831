//! Rules made of others: either of two, all but some, from and until an instant, a number of times.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::search::{Search, before};
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

    /// The instants of this rule without these. Earlier exceptions stay.
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
        Limits::plan(self.into(), Some(from), Some(until), None)
    }

    /// The instants of this rule up to this one, which is included.
    #[must_use]
    fn until(self, until: Timestamp) -> Plan {
        Limits::plan(self.into(), None, Some(until), None)
    }

    /// The first `n` instants of this rule from `from` on; `from` itself counts.
    ///
    /// They are counted once, when a plan is first asked for an instant. That takes as long as to find `n` instants.
    ///
    /// # Panics
    /// If `n` is 0 or more than [`Plan::MOST_TIMES`].
    #[must_use]
    #[track_caller]
    fn times(self, n: u32, from: Timestamp) -> Plan {
        let most = Plan::MOST_TIMES;
        assert!((1..=most).contains(&n), "the number of times must be 1 to {most}, got {n}");
        Limits::plan(self.into(), Some(from), None, Some(n))
    }
}

impl<T: Into<Plan>> Combine for T {}

/// A rule without the days of another.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct ExceptDays {
    pub(super) rule: Plan,
    pub(super) days_of: Plan,
    pub(super) zone: TimeZone,
}

/// A rule without some instants.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct ExceptAt {
    pub(super) rule: Plan,
    /// At least one.
    pub(super) instants: BTreeSet<Timestamp>,
}

/// A rule from an instant, to an instant, and so many times.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) rule: Plan,
    pub(super) from: Option<Timestamp>,
    pub(super) until: Option<Timestamp>,
    pub(super) times: Option<u32>,
    last: Last,
}

/// The last of so many times, or `None` if the rule ends before. Counted at the first search.
#[derive(Clone, Default)]
struct Last(OnceLock<Option<Timestamp>>);

/// It follows from the other fields, so whether it is counted makes no difference.
impl PartialEq for Last {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Last {}

impl Limits {
    pub(super) fn plan(
        rule: Plan,
        from: Option<Timestamp>,
        until: Option<Timestamp>,
        times: Option<u32>,
    ) -> Plan {
        Plan(Kind::Limits(Box::new(Self { rule, from, until, times, last: Last::default() })))
    }

    /// The last instant that may be one.
    pub(super) fn end(&self) -> Option<Timestamp> {
        let last = self.times.and_then(|times| *self.last.0.get_or_init(|| self.count(times)));
        self.until.into_iter().chain(last).min()
    }

    fn count(&self, times: u32) -> Option<Timestamp> {
        let mut last = before(self.from.unwrap_or(Timestamp::MIN));
        let mut search = Search::new(&self.rule, last);
        for _ in 0..times {
            last = search.after(last)?;
        }
        Some(last)
    }
}
