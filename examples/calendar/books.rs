//! What ran, and what should have run, found in another way.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan};

use crate::plan::WallClock;
use crate::rule::{OFFICE_HOURS, Occasion, Rule, is_working_day};

#[derive(Clone, Copy)]
pub(crate) struct Run {
    pub(crate) occasion: Occasion,
    /// What the clock on the wall showed.
    pub(crate) at: Timestamp,
}

impl Run {
    pub(crate) fn late(&self) -> SignedDuration {
        self.at.duration_since(self.occasion.at)
    }
}

/// The runs of one job.
#[derive(Clone, Default)]
pub(crate) struct Books(Arc<Mutex<Vec<Run>>>);

impl Books {
    /// What a job does: it notes when it ran.
    pub(crate) fn note(&self, occasion: Occasion, clock: &WallClock) {
        let run = Run { occasion, at: clock.now() };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(run);
    }

    pub(crate) fn runs(&self) -> Vec<Run> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The minutes of some days, by the date on the wall.
pub(crate) struct Minutes {
    zone: TimeZone,
    days: BTreeMap<Date, Vec<Timestamp>>,
}

impl Minutes {
    /// What the clock on the wall shows in each minute from `from` to `to`, and some days more, so that the last month
    /// has its end.
    pub(crate) fn new(zone: &TimeZone, from: Timestamp, to: Timestamp) -> Self {
        let mut days = BTreeMap::<Date, Vec<Timestamp>>::new();
        for minute in from.series(1.minute()).take_while(|&minute| minute < to + 7 * 24.hours()) {
            days.entry(zone.to_datetime(minute).date()).or_default().push(minute);
        }
        Self { zone: zone.clone(), days }
    }

    /// All minutes from `from` to `to` for which a rule asks. Not by its arithmetic: of each minute it is asked whether
    /// the clock on the wall shows such a time then.
    pub(crate) fn asked_for(&self, rule: Rule, from: Timestamp, to: Timestamp) -> Vec<Timestamp> {
        let mut found: Vec<Timestamp> = Vec::new();
        for (&date, minutes) in &self.days {
            match rule {
                Rule::Daily(time) => found.extend(self.first_with(time, minutes)),
                Rule::LastWorkingDay(time) => {
                    let next = self
                        .days
                        .range(date..)
                        .skip(1)
                        .map(|(&next, _)| next)
                        .find(|&next| is_working_day(next));
                    if is_working_day(date) && next.is_some_and(|next| next.month() != date.month()) {
                        found.extend(self.first_with(time, minutes));
                    }
                }
                Rule::OfficeHours(every) => found.extend(minutes.iter().filter(|&&minute| {
                    let time = self.zone.to_datetime(minute).time();
                    let is_whole = i64::from(time.minute()) % every == 0;
                    is_working_day(date) && is_whole && time >= OFFICE_HOURS.0 && time < OFFICE_HOURS.1
                })),
            }
        }
        found.retain(|minute| (from..to).contains(minute));
        found
    }

    /// The first of a day's minutes in which the clock shows that time. If it never does, the one in which it would,
    /// had it not been moved since the day began.
    fn first_with(&self, time: Time, minutes: &[Timestamp]) -> Option<Timestamp> {
        let offset = self.zone.to_offset(*minutes.first()?);
        let shows = |&&minute: &&Timestamp| self.zone.to_datetime(minute).time() == time;
        let would_show = |&&minute: &&Timestamp| offset.to_datetime(minute).time() == time;
        minutes.iter().find(shows).or_else(|| minutes.iter().find(would_show)).copied()
    }
}
