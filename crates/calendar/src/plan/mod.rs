//! Rules of all kinds as one type, combined, and stored as a text.

mod combine;
mod search;
mod text;

pub use combine::Combine;
use combine::{ExceptAt, ExceptDays, Limits};
use jiff::Timestamp;
use search::Search;
pub use text::PlanError;

use crate::cron::Cron;
use crate::instants::{Once, Periodic};
use crate::rule::Rule;
use crate::rules::Calendar;
use crate::zone::InZone;

/// Any rule with its zones, as a value that a configuration or a store keeps as one line of text.
///
/// Two plans are equal if they are made in the same way of equal rules. [`Display`](std::fmt::Display) writes a text of
/// one line, and [`FromStr`](std::str::FromStr) reads it. With the feature `serde` a plan is serialised as that text.
/// [`Combine`] puts plans together.
///
/// | text | made by |
/// |---|---|
/// | `cron 0 9 * * 1-5 in Europe/Berlin` | [`Cron::in_zone`] |
/// | `… gap skip overlap both` | [`InZone::with_gap`], [`InZone::with_overlap`] |
/// | `every 2 weeks from 2026-01-05 on MON,FRI at 09:00 in UTC` | [`Calendar`] |
/// | `every 1 days from 2026-01-05 on business,FRI at 09:00 in UTC` | [`Calendar::on_business_days`], [`Calendar::on`] |
/// | `every 90 minutes from 2026-01-01T00:00:00Z` | [`Periodic`] |
/// | `once at 2026-12-24T18:00:00Z` | [`Once`] |
/// | `any (…) (…)` | [`Combine::or`] |
/// | `(…) except days (…) in Europe/Berlin` | [`Combine::except_days_of`] |
/// | `(…) except at 2026-12-24T18:00:00Z` | [`Combine::except_at`] |
/// | `(…) from 2026-01-01T00:00:00Z until 2027-01-01T00:00:00Z` | [`Combine::between`] |
/// | `(…) from 2026-01-01T00:00:00Z times 5` | [`Combine::times`] |
///
/// A plan cannot be read back in three cases: its zone has no name (a zone from a file or a POSIX rule has none), its
/// text is longer than 65,536 bytes, or it is more than 32 plans deep. Serialising such a plan is an error.
///
/// # Examples
///
/// ```
/// use jiff::tz::TimeZone;
/// use timingwheel_calendar::{Combine, Cron, Plan, Rule};
///
/// let berlin = TimeZone::get("Europe/Berlin")?;
/// let work = Cron::parse("0 9 * * MON-FRI")?.in_zone(berlin.clone());
/// let christmas = Cron::parse("0 0 25,26 12 *")?.in_zone(berlin.clone());
/// let plan = work.except_days_of(christmas, berlin);
/// assert_eq!(plan.after("2026-12-24T12:00:00Z".parse()?), Some("2026-12-28T08:00:00Z".parse()?));
///
/// let stored = plan.to_string();
/// assert_eq!(
///     stored,
///     "(cron 0 9 * * 1-5 in Europe/Berlin) except days (cron 0 0 25,26 12 * in Europe/Berlin) in Europe/Berlin"
/// );
/// assert_eq!(stored.parse::<Plan>()?, plan);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Plan(Kind);

#[derive(Clone, PartialEq, Eq)]
enum Kind {
    Cron(InZone<Cron>),
    Calendar(InZone<Calendar>),
    Periodic(Periodic),
    Once(Once),
    Any(Vec<Plan>),
    ExceptDays(Box<ExceptDays>),
    ExceptAt(Box<ExceptAt>),
    Limits(Box<Limits>),
}

impl Plan {
    /// The largest number that [`Combine::times`] takes: counting the runs of a plan must not take long.
    pub const MOST_TIMES: u32 = 100_000;

    /// The cron expression with its zone, if the plan is one cron expression and nothing else.
    #[must_use]
    pub const fn as_cron(&self) -> Option<&InZone<Cron>> {
        if let Kind::Cron(rule) = &self.0 { Some(rule) } else { None }
    }

    /// The rule, if it is made of no others.
    fn single(&self) -> Option<&dyn Rule> {
        Some(match &self.0 {
            Kind::Cron(rule) => rule,
            Kind::Calendar(rule) => rule,
            Kind::Periodic(rule) => rule,
            Kind::Once(rule) => rule,
            _ => return None,
        })
    }

    /// The calendar rule with its zone, if the plan is one calendar rule and nothing else.
    #[must_use]
    pub const fn as_calendar(&self) -> Option<&InZone<Calendar>> {
        if let Kind::Calendar(rule) = &self.0 { Some(rule) } else { None }
    }
}

impl Rule for Plan {
    fn after(&self, last: Timestamp) -> Option<Timestamp> {
        self.single().map_or_else(|| Search::new(self, last).after(last), |rule| rule.after(last))
    }

    fn is_interval(&self) -> bool {
        match &self.0 {
            Kind::Any(plans) => plans.iter().all(Rule::is_interval),
            Kind::ExceptDays(rule) => rule.rule.is_interval(),
            Kind::ExceptAt(rule) => rule.rule.is_interval(),
            Kind::Limits(rule) => rule.rule.is_interval(),
            _ => self.single().is_some_and(Rule::is_interval),
        }
    }
}

macro_rules! plan_from {
    ($($rule:ty => $kind:ident),*) => {$(
        impl From<$rule> for Plan {
            fn from(rule: $rule) -> Self {
                Self(Kind::$kind(rule))
            }
        }
    )*};
}

plan_from!(InZone<Cron> => Cron, InZone<Calendar> => Calendar, Periodic => Periodic, Once => Once);
