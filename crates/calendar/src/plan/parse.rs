//! From a text to a plan.

use std::str::FromStr;

use jiff::Timestamp;

use super::limits::Limits;
use super::{Combine, Kind, Plan, PlanError};
use crate::cron::Cron;
use crate::once::Once;
use crate::periodic::Periodic;
use crate::rules::{self, Calendar};
use crate::tokens::Words;
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
        let mut words = Words::new(text);
        let read = plan(&mut words, 0).and_then(|plan| match words.next() {
            Ok(word) => Err(format!("{word} follows the end of the plan")),
            Err(_) => Ok(plan),
        });
        read.map_err(|problem| PlanError::new(text, words.place(), problem))
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

fn plan(words: &mut Words<'_>, depth: u32) -> Result<Plan, String> {
    if depth > DEEPEST {
        return Err(format!("plans within plans, more than {DEEPEST} deep"));
    }
    match words.next()? {
        "cron" => cron(words),
        "every" => every(words),
        "once" => Ok(Once::at(instant(words.expect("at")?)?).into()),
        "any" => {
            let mut plans = vec![inner(words, depth)?];
            while words.peek() == Some("(") {
                plans.push(inner(words, depth)?);
            }
            Ok(Plan(Kind::Any(plans)))
        }
        "(" => {
            let rule = closed(words, depth)?;
            suffix(rule, words, depth)
        }
        word => {
            Err(format!("a plan begins with cron, every, once, any or a parenthesis, and not with {word}"))
        }
    }
}

fn inner(words: &mut Words<'_>, depth: u32) -> Result<Plan, String> {
    words.must("(")?;
    closed(words, depth)
}

/// A plan and the parenthesis after it.
fn closed(words: &mut Words<'_>, depth: u32) -> Result<Plan, String> {
    let plan = plan(words, depth + 1)?;
    words.must(")")?;
    Ok(plan)
}

/// What is made of the plan in parentheses.
fn suffix(rule: Plan, words: &mut Words<'_>, depth: u32) -> Result<Plan, String> {
    if words.take("except") {
        return match words.next()? {
            "days" => {
                let days_of = inner(words, depth)?;
                Ok(rule.except_days_of(days_of, zone_name::parse(words.expect("in")?)?))
            }
            "at" => {
                let instants = words.next()?.split(',').map(instant);
                Ok(rule.except_at(instants.collect::<Result<Vec<_>, _>>()?))
            }
            word => Err(format!("{word} stands where `days` or `at` is expected")),
        };
    }
    let mut from = None;
    if words.take("from") {
        from = Some(instant(words.next()?)?);
    }
    if words.take("times") {
        let text = words.next()?;
        let most = <Plan as Combine>::MOST_TIMES;
        let times = text.parse().ok().filter(|times| (1..=most).contains(times));
        let times = times.ok_or_else(|| format!("{text} times: it takes 1 to {most}"))?;
        let Some(from) = from else { return Err("from when are the times counted?".into()) };
        return Ok(rule.times(times, from));
    }
    let until = if words.take("until") { Some(instant(words.next()?)?) } else { None };
    if from.is_none() && until.is_none() {
        words.next()?;
        return Err("what is made of the plan in parentheses: except, from, until?".into());
    }
    Ok(Plan(Kind::Limits(Box::new(Limits::new(rule, from, until, None)))))
}

fn cron(words: &mut Words<'_>) -> Result<Plan, String> {
    // From the word `cron` to the word `in`.
    let from = words.place().end;
    while words.next()? != "in" {}
    let expression = words.between(from, words.place().start);
    let cron = Cron::parse(expression).map_err(|error| {
        let place = error.place();
        words.point_at(from + place.start..from + place.end);
        // Its own first line; the place is shown in the whole text.
        error.to_string().lines().next().unwrap_or_default().to_owned()
    })?;
    let zone = zone_name::parse(words.next()?)?;
    Ok(chosen(cron.in_zone(zone), words)?.into())
}

fn every(words: &mut Words<'_>) -> Result<Plan, String> {
    let number = words.next()?;
    let n: u64 = number.parse().map_err(|_| format!("{number} is no number of units"))?;
    let unit = words.next()?;
    let seconds = match unit {
        "seconds" => 1,
        "minutes" => 60,
        "hours" => 3_600,
        "days" | "weeks" | "months" | "years" => {
            let n = u32::try_from(n).map_err(|_| format!("every {n} {unit}: that is too many"))?;
            let rule = rules::text::parse(n, unit, words)?;
            let zone = zone_name::parse(words.expect("in")?)?;
            return Ok(chosen(rule.in_zone(zone), words)?.into());
        }
        _ => {
            return Err(format!(
                "{unit} is no unit: seconds, minutes, hours, days, weeks, months and years are"
            ));
        }
    };
    let anchor = instant(words.expect("from")?)?;
    match n.checked_mul(seconds) {
        Some(seconds @ 1..) => Ok(Periodic::seconds(seconds, anchor).into()),
        _ => Err(format!("every {n} {unit}: it takes at least 1, and not that many")),
    }
}

fn chosen<T>(mut rule: InZone<T>, words: &mut Words<'_>) -> Result<InZone<T>, String> {
    if words.take("gap") {
        rule = rule.with_gap(named(words.next()?, &Gap::NAMES)?);
    }
    if words.take("overlap") {
        rule = rule.with_overlap(named(words.next()?, &Overlap::NAMES)?);
    }
    Ok(rule)
}

fn named<T: Copy>(text: &str, names: &[(&str, T)]) -> Result<T, String> {
    names.iter().find(|(name, _)| *name == text).map(|&(_, value)| value).ok_or_else(|| {
        let names: Vec<&str> = names.iter().map(|&(name, _)| name).collect();
        format!("{text} is none of {}", names.join(", "))
    })
}

fn instant(text: &str) -> Result<Timestamp, String> {
    text.parse().map_err(|error: jiff::Error| error.to_string())
}
