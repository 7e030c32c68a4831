//! From a text to a plan.

use std::str::FromStr;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::combine::{Limits, MOST_STEPS};
use super::search::Steps;
use super::{Combine, Kind, Plan, PlanError};
use crate::cron::Cron;
use crate::instants::Once;
use crate::instants::Periodic;
use crate::rules::{self, Calendar, MOST_YEARS};
use crate::tokens::{Words, number};
use crate::zone::{Gap, InZone, Overlap};
use crate::zone_name;

/// Plans within plans. More are a mistake, or somebody who would have the stack overflow.
const DEEPEST: u32 = 32;
/// What a line of a configuration may take.
const LONGEST: usize = 65_536;
const QUOTED: usize = 60;

impl FromStr for Plan {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Self, PlanError> {
        if text.len() > LONGEST {
            let quoted: String = text.chars().take(QUOTED).collect();
            let problem = format!("a plan of {} bytes, and {LONGEST} are the most", text.len());
            return Err(PlanError::new(&quoted, quoted.len()..quoted.len(), problem));
        }
        let mut reader = Reader { words: Words::new(text), steps: Steps(MOST_STEPS), hint: None };
        let read = reader.plan(0).and_then(|plan| match reader.words.peek() {
            Some(_) => Err(format!("{} follows the end of the plan", reader.words.next("a word")?)),
            None => Ok(plan),
        });
        read.map_err(|problem| PlanError::new(text, reader.words.place(), problem).with_hint(reader.hint))
    }
}

impl FromStr for InZone<Cron> {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Self, PlanError> {
        let plan: Plan = text.parse()?;
        plan.as_cron()
            .cloned()
            .ok_or_else(|| PlanError::new(text, 0..0, "this plan is no cron expression".into()))
    }
}

impl FromStr for InZone<Calendar> {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Self, PlanError> {
        let plan: Plan = text.parse()?;
        plan.as_calendar()
            .cloned()
            .ok_or_else(|| PlanError::new(text, 0..0, "this plan is no calendar rule".into()))
    }
}

/// What a text is read by.
struct Reader<'a> {
    words: Words<'a>,
    /// For all that is counted.
    steps: Steps,
    /// What may stand where something is wrong.
    hint: Option<String>,
}

const AN_INSTANT: &str = "an instant, as 2026-12-24T18:00:00Z,";
const A_ZONE: &str = "a zone, as Europe/Berlin,";

impl Reader<'_> {
    fn plan(&mut self, depth: u32) -> Result<Plan, String> {
        if depth > DEEPEST {
            return Err(format!("plans within plans, more than {DEEPEST} deep"));
        }
        match self.words.next("cron, every, once, any or a parenthesis")? {
            "cron" => self.cron(),
            "every" => self.every(),
            "once" => {
                self.words.must("at")?;
                Ok(Once::at(self.instant()?).into())
            }
            "any" => {
                let mut plans = vec![self.inner(depth)?];
                while self.words.peek() == Some("(") {
                    plans.push(self.inner(depth)?);
                }
                Ok(Plan(Kind::Any(plans)))
            }
            "(" => {
                let rule = self.closed(depth)?;
                self.suffix(rule, depth)
            }
            word => Err(format!(
                "a plan begins with cron, every, once, any or a parenthesis, and not with {word}"
            )),
        }
    }

    fn inner(&mut self, depth: u32) -> Result<Plan, String> {
        self.words.must("(")?;
        self.closed(depth)
    }

    /// A plan and the parenthesis after it.
    fn closed(&mut self, depth: u32) -> Result<Plan, String> {
        let plan = self.plan(depth + 1)?;
        self.words.must(")")?;
        Ok(plan)
    }

    /// What is made of the plan in parentheses.
    fn suffix(&mut self, rule: Plan, depth: u32) -> Result<Plan, String> {
        if self.words.take("except") {
            return match self.words.next("`days` or `at`")? {
                "days" => {
                    let days_of = self.inner(depth)?;
                    self.words.must("in")?;
                    Ok(rule.except_days_of(days_of, self.zone()?))
                }
                "at" => {
                    let instants = self.words.next(AN_INSTANT)?.split(',').map(instant);
                    Ok(rule.except_at(instants.collect::<Result<Vec<_>, _>>()?))
                }
                word => Err(format!("{word} stands where `days` or `at` is expected")),
            };
        }
        let from = if self.words.take("from") { Some(self.instant()?) } else { None };
        if self.words.take("times") {
            let text = self.words.next("how many times, as 5,")?;
            let most = <Plan as Combine>::MOST_TIMES;
            let times = number(text).filter(|times| (1..=most).contains(times));
            let times = times.ok_or_else(|| format!("{text} times: it takes 1 to {most}"))?;
            let Some(from) = from else { return Err("from when are the times counted?".into()) };
            return Ok(Plan(Kind::Limits(Box::new(Limits::times(rule, from, times, &mut self.steps)?))));
        }
        let until = if self.words.take("until") { Some(self.instant()?) } else { None };
        if from.is_none() && until.is_none() {
            self.words.next("`except`, `from` or `until`")?;
            return Err("what is made of the plan in parentheses: except, from, until?".into());
        }
        Ok(Plan(Kind::Limits(Box::new(Limits::new(rule, from, until)))))
    }

    fn cron(&mut self) -> Result<Plan, String> {
        // From the word `cron` to the word `in`.
        let from = self.words.place().end;
        while self.words.next("`in` and a zone, as `in Europe/Berlin`,")? != "in" {}
        let expression = self.words.between(from, self.words.place().start);
        let cron = Cron::parse(expression).map_err(|error| {
            let place = error.place();
            self.words.point_at(from + place.start..from + place.end);
            self.hint = error.hint();
            // The place is shown in the whole text.
            error.problem().to_owned()
        })?;
        let zone = self.zone()?;
        Ok(self.chosen(cron.in_zone(zone))?.into())
    }

    fn every(&mut self) -> Result<Plan, String> {
        let text = self.words.next("a number of units")?;
        let place = self.words.place();
        let n: u64 = number(text).ok_or_else(|| format!("{text} is no number of units, as 2 is"))?;
        let unit = self.words.next("a unit, as days,")?;
        let (seconds, most) = match unit {
            "seconds" => (1, u64::MAX),
            "minutes" => (60, u64::MAX / 60),
            "hours" => (3_600, u64::MAX / 3_600),
            "days" | "weeks" | "months" => (0, u32::MAX.into()),
            "years" => (0, MOST_YEARS.into()),
            _ => {
                return Err(format!(
                    "{unit} is no unit: seconds, minutes, hours, days, weeks, months and years are"
                ));
            }
        };
        if !(1..=most).contains(&n) {
            self.words.point_at(place);
            return Err(format!("every {n} {unit}: it takes 1 to {most}"));
        }
        if seconds > 0 {
            self.words.must("from")?;
            return Ok(Periodic::seconds(n * seconds, self.instant()?).into());
        }
        // At most `most`.
        let n = u32::try_from(n).unwrap_or(u32::MAX);
        let rule = rules::text::parse(n, unit, &mut self.words)?;
        self.words.must("in")?;
        let zone = self.zone()?;
        Ok(self.chosen(rule.in_zone(zone))?.into())
    }

    fn chosen<T>(&mut self, mut rule: InZone<T>) -> Result<InZone<T>, String> {
        if self.words.take("gap") {
            rule = rule.with_gap(self.named(&Gap::NAMES)?);
        }
        if self.words.take("overlap") {
            rule = rule.with_overlap(self.named(&Overlap::NAMES)?);
        }
        Ok(rule)
    }

    fn named<T: Copy>(&mut self, all: &[(&str, T)]) -> Result<T, String> {
        let names = all.iter().map(|&(name, _)| name).collect::<Vec<_>>().join(", ");
        let text = self.words.next(&format!("one of {names}"))?;
        let named = all.iter().find(|(name, _)| *name == text);
        named.map(|&(_, value)| value).ok_or_else(|| format!("{text} is none of {names}"))
    }

    fn zone(&mut self) -> Result<TimeZone, String> {
        zone_name::parse(self.words.next(A_ZONE)?)
    }

    fn instant(&mut self) -> Result<Timestamp, String> {
        instant(self.words.next(AN_INSTANT)?)
    }
}

fn instant(text: &str) -> Result<Timestamp, String> {
    text.parse().map_err(|error: jiff::Error| error.to_string())
}
