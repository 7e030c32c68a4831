//! What does my expression mean, and when is it next?
//!
//! ```sh
//! cargo run -p timingwheel-calendar --example next -- '0 9 * * MON-FRI' Europe/Berlin
//! ```
//!
//! A cron expression and a time zone, or a plan in one argument, as `'every 2 weeks from 2026-01-05 at 09:00 in UTC'`. An
//! instant as the last argument is when to begin, instead of now. It prints what the rule means, its next five instants,
//! a calendar of the next three months that have any, and the clock changes in them, with what runs on those days.

mod changes;
mod months;
mod zones;

use std::process::ExitCode;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use timingwheel_calendar::{Cron, Plan, Rule};

const USAGE: &str = "usage: next EXPRESSION [ZONE] [BEGIN]

  EXPRESSION  a cron expression, as '0 9 * * MON-FRI', or a plan, as
              'every 2 weeks from 2026-01-05 on MON,FRI at 09:00 in UTC'
  ZONE        a name of the time zone database, as Europe/Berlin; UTC if left out
  BEGIN       an instant, as 2026-10-01T00:00:00Z; now if left out";

/// A rule, what it means, and the clocks by which it is shown.
struct Asked {
    rule: Plan,
    meaning: String,
    zone: TimeZone,
}

fn read(expression: &str, zone: TimeZone) -> Result<Asked, String> {
    let is_plan = ["cron ", "every ", "once ", "any ", "("].iter().any(|word| expression.starts_with(word));
    if is_plan {
        let rule: Plan =
            expression.parse().map_err(|error: timingwheel_calendar::PlanError| error.to_string())?;
        let (meaning, zone) = match (rule.as_cron(), rule.as_calendar()) {
            (Some(cron), _) => (cron.times().describe(), cron.zone().clone()),
            (_, Some(calendar)) => (calendar.times().describe(), calendar.zone().clone()),
            _ => (rule.to_string(), zone),
        };
        return Ok(Asked { rule, meaning, zone });
    }
    let cron = Cron::parse(expression).map_err(|error| error.to_string())?;
    Ok(Asked { rule: cron.in_zone(zone.clone()).into(), meaning: cron.describe(), zone })
}

fn run(arguments: &[String]) -> Result<(), String> {
    let (expression, rest) = match arguments {
        [expression, rest @ ..] if rest.len() <= 2 && !expression.starts_with("--") => (expression, rest),
        _ => return Err(USAGE.into()),
    };
    let (mut zone, mut begin) = (TimeZone::UTC, Timestamp::now());
    for argument in rest {
        match argument.parse() {
            Ok(instant) => begin = instant,
            Err(_) => zone = zones::named(argument)?,
        }
    }
    let Asked { rule, meaning, zone } = read(expression, zone)?;
    println!("{meaning},\nby the clocks of {}\n", zone.iana_name().unwrap_or("UTC or an offset"));
    let next: Vec<Timestamp> = rule.upcoming(begin).take(5).collect();
    if next.is_empty() {
        println!("never again until the year 9999");
    }
    for instant in next {
        println!("  {}", instant.to_zoned(zone.clone()).strftime("%a %e %b %Y  %H:%M:%S %Z (UTC%:z)"));
    }
    let months = months::with_runs(&rule, &zone, begin);
    months::print(&months, &rule, &zone, begin);
    changes::print(&months, &rule, &zone, begin);
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}
