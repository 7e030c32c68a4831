//! A plan as a text of one line.

use std::fmt;

use super::combine::Limits;
use super::{Kind, Plan};
use crate::cron::Cron;
use crate::rules::Calendar;
use crate::zone::InZone;
use crate::zone_name::name;

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
                write!(f, "({}) except days ({}) in {}", rule.rule, rule.days_of, name(&rule.zone))
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

fn print_zone<T>(rule: &InZone<T>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, " in {}", name(rule.zone()))?;
    let (gap, overlap) = rule.chosen();
    if let Some(gap) = gap {
        write!(f, " gap {}", gap.name())?;
    }
    if let Some(overlap) = overlap {
        write!(f, " overlap {}", overlap.name())?;
    }
    Ok(())
}
