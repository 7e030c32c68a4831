//! Rules that leave something out.

use std::collections::BTreeSet;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::Plan;

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
