//! A plan as a text of one line: printed, read, and stored.

use std::error::Error;
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::combine::Limits;
use super::{Combine, Kind, Plan};
use crate::cron::Cron;
use crate::instants::{Once, Periodic};
use crate::rules::{self, Calendar, MOST_YEARS};
use crate::text::{Mistake, Words, number, parse_zone, zone_name};
use crate::zone::{Gap, InZone, Overlap};

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Plan({self})")
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Cron(rule) => rule.fmt(f),
            Kind::Calendar(rule) => rule.fmt(f),
            Kind::Periodic(rule) => rule.fmt(f),
            Kind::Once(rule) => rule.fmt(f),
            Kind::Any(plans) => {
                f.write_str("any")?;
                plans.iter().try_for_each(|plan| write!(f, " ({plan})"))
            }
            Kind::ExceptDays(rule) => {
                write!(f, "({}) except days ({}) in {}", rule.rule, rule.days_of, zone_name(&rule.zone))
            }
            Kind::ExceptAt(rule) => {
                write!(f, "({}) except at ", rule.rule)?;
                let instants: Vec<String> = rule.instants.iter().map(ToString::to_string).collect();
                f.write_str(&instants.join(","))
            }
            Kind::Limits(limits) => print_limits(limits, f),
        }
    }
}

fn print_limits(limits: &Limits, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "({})", limits.rule)?;
    if let Some(from) = limits.from {
        write!(f, " from {from}")?;
    }
    if let Some(until) = limits.until {
        write!(f, " until {until}")?;
    }
    if let Some(times) = limits.times {
        write!(f, " times {times}")?;
    }
    Ok(())
}

/// As in a [`Plan`].
impl fmt::Display for InZone<Cron> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cron {}", self.times())?;
        print_zone(self, f)
    }
}

/// As in a [`Plan`].
impl fmt::Display for InZone<Calendar> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.times().fmt(f)?;
        print_zone(self, f)
    }
}

const GAPS: [(&str, Gap); 2] = [("after", Gap::AfterGap), ("skip", Gap::Skip)];
const OVERLAPS: [(&str, Overlap); 3] =
    [("first", Overlap::First), ("second", Overlap::Second), ("both", Overlap::Both)];

fn name<T: PartialEq>(all: &[(&'static str, T)], value: T) -> &'static str {
    all.iter().find(|(_, one)| *one == value).map_or("", |(name, _)| name)
}

impl<T> fmt::Debug for InZone<T>
where
    Self: fmt::Display,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "InZone({self})")
    }
}

fn print_zone<T>(rule: &InZone<T>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, " in {}", zone_name(rule.zone()))?;
    let (gap, overlap) = rule.chosen();
    if let Some(gap) = gap {
        write!(f, " gap {}", name(&GAPS, gap))?;
    }
    if let Some(overlap) = overlap {
        write!(f, " overlap {}", name(&OVERLAPS, overlap))?;
    }
    Ok(())
}

/// Why a text is not a plan.
///
/// Its `Display` has three lines: what is wrong, the text, and a mark under the place. If a field of a cron expression is
/// wrong, a fourth says what may stand there.
///
/// # Examples
///
/// ```
/// use timingwheel_calendar::Plan;
///
/// let error = "every 2 fortnights from 2026-01-05 in UTC".parse::<Plan>().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "fortnights is not a unit: the units are seconds, minutes, hours, days, weeks, months and years\n  \
///        every 2 fortnights from 2026-01-05 in UTC\n          \
///                ^^^^^^^^^^"
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanError(Box<Mistake>);

impl PlanError {
    /// The text that was given, or the beginning of one that is too long.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// It is another kind of plan.
    fn not(what: &str, text: &str) -> Self {
        let problem = format!("this plan is not {what}");
        Self(Box::new(Mistake { text: text.into(), place: 0..0, problem, hint: None }))
    }

    /// The place of the mistake in [`text`](Self::text), in bytes. It is empty where something is missing, and if the
    /// text is too long or another kind of plan.
    #[must_use]
    pub fn place(&self) -> Range<usize> {
        self.0.place.clone()
    }
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for PlanError {}

/// Plans within plans. More are a mistake, or an attempt to overflow the stack.
const DEEPEST: u32 = 32;
/// The longest line of a configuration, in bytes.
const LONGEST: usize = 65_536;

impl FromStr for Plan {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Self, PlanError> {
        if text.len() > LONGEST {
            return Err(PlanError(Box::new(Mistake::too_long("a plan", text, LONGEST))));
        }
        let mut reader = Reader { words: Words::new(text), hint: None };
        let read = reader.plan(0).and_then(|plan| match reader.words.peek() {
            Some(_) => Err(format!("{} follows the end of the plan", reader.words.next("a word")?)),
            None => Ok(plan),
        });
        read.map_err(|problem| {
            let place = reader.words.place();
            PlanError(Box::new(Mistake { text: text.into(), place, problem, hint: reader.hint }))
        })
    }
}

impl FromStr for InZone<Cron> {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Self, PlanError> {
        let plan: Plan = text.parse()?;
        plan.as_cron().cloned().ok_or_else(|| PlanError::not("a cron expression", text))
    }
}

impl FromStr for InZone<Calendar> {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Self, PlanError> {
        let plan: Plan = text.parse()?;
        plan.as_calendar().cloned().ok_or_else(|| PlanError::not("a calendar rule", text))
    }
}

/// Reads a plan from words.
struct Reader<'a> {
    words: Words<'a>,
    /// Expected in place of the mistake.
    hint: Option<String>,
}

const AN_INSTANT: &str = "an instant, as 2026-12-24T18:00:00Z,";
const A_ZONE: &str = "a zone, as Europe/Berlin,";

impl Reader<'_> {
    fn plan(&mut self, depth: u32) -> Result<Plan, String> {
        if depth > DEEPEST {
            return Err(format!("plans within plans must be at most {DEEPEST} deep"));
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
            word => Err(format!("cron, every, once, any or a parenthesis is expected, got {word}")),
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

    /// The part after a plan in parentheses.
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
                word => Err(format!("`days` or `at` is expected, got {word}")),
            };
        }
        let from = if self.words.take("from") { Some(self.instant()?) } else { None };
        if self.words.take("times") {
            let text = self.words.next("how many times, as 5,")?;
            let most = Plan::MOST_TIMES;
            let times = number(text).filter(|times| (1..=most).contains(times));
            let times =
                times.ok_or_else(|| format!("the number of times must be 1 to {most}, got {text}"))?;
            let Some(from) = from else {
                return Err("the start is missing, as in `from 2026-01-01T00:00:00Z times 5`".into());
            };
            return Ok(Limits::plan(rule, Some(from), None, Some(times)));
        }
        let until = if self.words.take("until") { Some(self.instant()?) } else { None };
        if from.is_none() && until.is_none() {
            self.words.next("`except`, `from` or `until`")?;
            return Err("`except`, `from` or `until` is expected after a plan in parentheses".into());
        }
        Ok(Limits::plan(rule, from, until, None))
    }

    fn cron(&mut self) -> Result<Plan, String> {
        // From the word `cron` to the word `in`.
        let from = self.words.place().end;
        while self.words.next("`in` and a zone, as `in Europe/Berlin`,")? != "in" {}
        let expression = self.words.between(from, self.words.place().start);
        let cron = Cron::parse(expression).map_err(|error| {
            let place = error.place();
            // The place is shown in the whole text.
            self.words.point_at(from + place.start..from + place.end);
            let mistake = error.into_mistake();
            self.hint = mistake.hint;
            mistake.problem
        })?;
        let zone = self.zone()?;
        Ok(self.chosen(cron.in_zone(zone))?.into())
    }

    fn every(&mut self) -> Result<Plan, String> {
        let text = self.words.next("a number of units")?;
        let place = self.words.place();
        let n: u64 = number(text).ok_or_else(|| format!("{text} is not a number of units, as 2 is"))?;
        let unit = self.words.next("a unit, as days,")?;
        let (seconds, most) = match unit {
            "seconds" => (1, u64::MAX),
            "minutes" => (60, u64::MAX / 60),
            "hours" => (3_600, u64::MAX / 3_600),
            "days" | "weeks" | "months" => (0, u32::MAX.into()),
            "years" => (0, MOST_YEARS.into()),
            _ => {
                return Err(format!(
                    "{unit} is not a unit: the units are seconds, minutes, hours, days, weeks, months and years"
                ));
            }
        };
        if !(1..=most).contains(&n) {
            self.words.point_at(place);
            return Err(format!("the number of {unit} must be 1 to {most}, got {n}"));
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
            rule = rule.with_gap(self.named(&GAPS)?);
        }
        if self.words.take("overlap") {
            rule = rule.with_overlap(self.named(&OVERLAPS)?);
        }
        Ok(rule)
    }

    fn named<T: Copy>(&mut self, all: &[(&str, T)]) -> Result<T, String> {
        let names = all.iter().map(|&(name, _)| name).collect::<Vec<_>>().join(", ");
        let text = self.words.next(&format!("one of {names}"))?;
        let named = all.iter().find(|(name, _)| *name == text);
        named.map(|&(_, value)| value).ok_or_else(|| format!("one of {names} is expected, got {text}"))
    }

    fn zone(&mut self) -> Result<TimeZone, String> {
        parse_zone(self.words.next(A_ZONE)?)
    }

    fn instant(&mut self) -> Result<Timestamp, String> {
        instant(self.words.next(AN_INSTANT)?)
    }
}

fn instant(text: &str) -> Result<Timestamp, String> {
    text.parse().map_err(|error: jiff::Error| error.to_string())
}

/// Feature `serde`: rules as their texts.
#[cfg(feature = "serde")]
mod stored {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::de::Error as _;
    use serde::ser::Error as _;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::{Calendar, Cron, InZone, Plan};
    use crate::text::NAMELESS;

    /// Nothing is stored that is not read back as the same.
    fn write<T, S>(value: &T, to: S) -> Result<S::Ok, S::Error>
    where
        T: Display + FromStr<Err: Display> + PartialEq,
        S: Serializer,
    {
        let text = value.to_string();
        if text.contains(NAMELESS) {
            return Err(S::Error::custom("a rule in a zone without a name cannot be read back"));
        }
        match text.parse::<T>() {
            Ok(read) if read == *value => to.serialize_str(&text),
            Ok(read) => Err(S::Error::custom(format!("a rule that would be read back as another, {read}"))),
            Err(error) => Err(S::Error::custom(format!("a rule that could not be read back: {error}"))),
        }
    }

    macro_rules! as_text {
        ($($rule:ty),*) => {$(
            impl Serialize for $rule {
                fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                    write(self, to)
                }
            }

            impl<'de> Deserialize<'de> for $rule {
                fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                    // Borrowed or not, as the format has it.
                    String::deserialize(from)?.parse().map_err(D::Error::custom)
                }
            }
        )*};
    }

    as_text!(Cron, InZone<Cron>, InZone<Calendar>, Plan);
}
