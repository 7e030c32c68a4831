//! The trait of all rules: the next instant after a given one.

use jiff::Timestamp;

/// When something is due, again and again: a pure function from an instant to the next.
///
/// A rule reads no clock and keeps no state. The caller has to remember the last instant that was due, and to pass that
/// instant instead of the present time. Then no instant is left out.
///
/// # Examples
///
/// ```
/// use jiff::{Timestamp, tz::TimeZone};
/// use timingwheel_calendar::{Cron, Rule};
///
/// let rule = Cron::parse("0 9 * * MON-FRI")?.in_zone(TimeZone::get("Europe/Berlin")?);
/// let friday: Timestamp = "2026-03-27T12:00:00Z".parse()?;
/// let monday = rule.after(friday).unwrap();
/// // The clocks went forward on Sunday: 9 o'clock is an hour earlier.
/// assert_eq!(monday.to_string(), "2026-03-30T07:00:00Z");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Rule {
    /// The first instant of this rule that is later than `last`, or `None` if there is none.
    ///
    /// An implementation must return an instant later than `last`, and the same one for each `last` between two
    /// instants. The rules of this crate return `None` only when it is proven that no instant follows until the end of
    /// the year 9999, where [`Timestamp`] ends.
    ///
    /// # Panics
    /// The rules of this crate never do.
    fn after(&self, last: Timestamp) -> Option<Timestamp>;

    /// Whether the rule is about the time between runs, and not about times of the day.
    ///
    /// Intervals are a [`Periodic`](crate::Periodic), a cron expression that [is one](crate::Cron::is_interval), and a
    /// [`Plan`](crate::Plan) whose rules all are. The rule of an exception does not count. The default is `false`.
    ///
    /// A schedule on a wheel calls this when somebody sets the clock back. If that is by more than a period, an
    /// interval goes by the new time at once. Any other rule waits until the clock has passed the instants that have
    /// run.
    fn is_interval(&self) -> bool {
        false
    }

    /// The instants after `last`, one by one.
    ///
    /// # Examples
    ///
    /// ```
    /// use jiff::{Timestamp, tz::TimeZone};
    /// use timingwheel_calendar::{Cron, Rule};
    ///
    /// let leap_days = Cron::parse("0 9 29 2 *")?.in_zone(TimeZone::UTC);
    /// let from: Timestamp = "2096-01-01T00:00:00Z".parse()?;
    /// let two: Vec<String> = leap_days.upcoming(from).take(2).map(|at| at.to_string()).collect();
    /// assert_eq!(two, ["2096-02-29T09:00:00Z", "2104-02-29T09:00:00Z"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn upcoming(&self, last: Timestamp) -> Upcoming<'_, Self>
    where
        Self: Sized,
    {
        Upcoming { rule: self, last: Some(last) }
    }
}

macro_rules! rule_by_reference {
    ($($reference:ty),*) => {$(
        impl<R: Rule + ?Sized> Rule for $reference {
            fn after(&self, last: Timestamp) -> Option<Timestamp> {
                (**self).after(last)
            }

            fn is_interval(&self) -> bool {
                (**self).is_interval()
            }
        }
    )*};
}

rule_by_reference!(&R, Box<R>, std::sync::Arc<R>);

/// The instants of a rule, from [`Rule::upcoming`].
#[derive(Clone, Debug)]
pub struct Upcoming<'a, R> {
    rule: &'a R,
    /// `None` after the end.
    last: Option<Timestamp>,
}

impl<R: Rule> Iterator for Upcoming<'_, R> {
    type Item = Timestamp;

    fn next(&mut self) -> Option<Timestamp> {
        self.last = self.rule.after(self.last?);
        self.last
    }
}

impl<R: Rule> std::iter::FusedIterator for Upcoming<'_, R> {}
