//! A year of jobs, some of which are replaced and removed.

use std::error::Error;
use std::time::{Duration, Instant};

use indicatif::{HumanCount, HumanDuration, ProgressBar, ProgressStyle};
use jiff::civil::{Date, date, time};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use timingwheel::TimingWheel;
use timingwheel::job::Jobs;

use crate::books::{Books, Minutes, Run};
use crate::plan::{Plan, WallClock};
use crate::report::report;
use crate::rule::Rule;

/// What happens to the job of a name on a day: it is added, it replaces the one before, or it is removed.
struct Change {
    month: i8,
    key: &'static str,
    rule: Option<Rule>,
}

const CHANGES: [Change; 6] = [
    Change { month: 1, key: "backup", rule: Some(Rule::Daily(time(2, 30, 0, 0))) },
    Change { month: 1, key: "payroll", rule: Some(Rule::LastWorkingDay(time(18, 0, 0, 0))) },
    Change { month: 1, key: "prices", rule: Some(Rule::OfficeHours(15)) },
    Change { month: 1, key: "lunch", rule: Some(Rule::Daily(time(11, 45, 0, 0))) },
    Change { month: 7, key: "prices", rule: Some(Rule::OfficeHours(30)) },
    Change { month: 10, key: "lunch", rule: None },
];

/// A job from its beginning until it was replaced, removed or stopped.
pub(crate) struct Lived {
    pub(crate) key: &'static str,
    pub(crate) rule: Rule,
    pub(crate) from: Timestamp,
    pub(crate) to: Timestamp,
    books: Books,
}

impl Lived {
    pub(crate) fn runs(&self) -> Vec<Run> {
        self.books.runs()
    }
}

/// Lets the year pass, prints its table, and returns what does not add up.
pub(crate) async fn run(
    zone: &TimeZone,
    year: i16,
    look_every: Duration,
) -> Result<Vec<String>, Box<dyn Error>> {
    println!(
        "The year {year} in {}. Jobs look at the clock at least every {}.\n",
        name(zone),
        HumanDuration(look_every)
    );
    let style = ProgressStyle::with_template("{wide_bar} {msg}")?;
    let bar = ProgressBar::new(date(year, 1, 1).days_in_year().try_into()?).with_style(style);
    let midnight = |date: Date| zone.to_timestamp(date.at(0, 0, 0, 0));
    let (begin, end) = (midnight(date(year, 1, 1))?, midnight(date(year + 1, 1, 1))?);
    let real_begin = Instant::now();

    let wheel = TimingWheel::new();
    let jobs = Jobs::new(&wheel);
    let clock = WallClock::showing(begin);
    let mut lived: Vec<Lived> = Vec::new();
    let mut problems = Vec::new();
    for day in date(year, 1, 1).series(1.day()).take_while(|day| day.year() == year) {
        let changes = CHANGES.iter().filter(|change| day == date(year, change.month, 1));
        for Change { key, rule, .. } in changes {
            let before = lived.iter_mut().find(|job| job.key == *key && job.to == end);
            let was_there = before.is_some();
            if let Some(before) = before {
                before.to = midnight(day)?;
            }
            let found = match rule {
                None => jobs.remove(key),
                Some(rule) => {
                    let plan = Plan::new(*rule, zone.clone(), clock.clone(), look_every);
                    let (books, clock) = (Books::default(), clock.clone());
                    let noted = books.clone();
                    lived.push(Lived { key, rule: *rule, from: midnight(day)?, to: end, books });
                    plan.run(&jobs, key, move |occasion| {
                        noted.note(occasion, &clock);
                        // Here the work begins.
                        async {}
                    })?
                }
            };
            if found.is_some() != was_there {
                problems.push(format!("{key}: found {found:?} on {day}"));
            }
        }
        bar.set_message(day.strftime("%d %B, %A").to_string());
        bar.inc(1);
        let until_midnight = midnight(day.tomorrow()?)?.duration_since(clock.now());
        wheel.sleep(until_midnight.try_into()?).await;
    }
    let left = jobs.stop();
    bar.finish_and_clear();

    let minutes = Minutes::new(zone, begin, end);
    problems.extend(report(zone, year, &lived, &minutes)?);
    let stats = wheel.stats();
    println!(
        "\nThe {} hours passed in {:.1?}, by {} timers; {} jobs were stopped at the end.\n",
        HumanCount(u64::try_from(end.duration_since(begin).as_hours())?),
        real_begin.elapsed(),
        HumanCount(stats.fired),
        left.len()
    );
    if left.len() != 3 || stats.pending > 0 || stats.jobs_panicked > 0 {
        problems.push(format!("{left:?} were stopped, and there are {stats:?}"));
    }
    Ok(problems)
}

fn name(zone: &TimeZone) -> &str {
    zone.iana_name().unwrap_or("a time zone without a name")
}
