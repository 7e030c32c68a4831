//! How do I run jobs by the calendar, in a time zone, though clocks are moved?
//!
//! `cargo run --release --example calendar`, or with `-- --help` for the settings and `-- --short` for a quick look.
//!
//! A wheel counts durations. What is due at half past two in Berlin is a matter of the calendar, for which there is a
//! library, here `jiff`: a `Schedule` asks it from each run when the next is due. Jobs by such schedules are kept under
//! their names, and one is replaced and one removed while they run. A year of them passes on tokio's paused clock, and
//! with it the days on which the clocks on the wall are moved. Then comes a week in which somebody sets the machine's
//! clock.
//!
//! In production the time is read by `Timestamp::now()`, and nothing else differs. That clock may be set while a job
//! waits, and goes on while the machine is suspended, which the wheel's does not. So it is read anew for each run, and
//! no wait is longer than some minutes, after which the schedule looks at it again. `plan.rs` is what to take along.
//!
//! Which runs there should be is found in another way: what the clock on the wall shows in each single minute of the
//! year. If a run is missing, too many, early or late, the program says so and exits with 1.

mod books;
mod plan;
mod report;
mod rule;
mod set_clock;
mod year;

use std::error::Error;
use std::ops::RangeInclusive;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use jiff::tz::TimeZone;

/// Jobs by the calendar, for a year.
#[derive(Parser)]
#[command(name = "calendar")]
struct Settings {
    /// The time zone in which the jobs run
    #[arg(long, value_name = "ZONE", default_value = "Europe/Berlin", value_parser = zone)]
    zone: TimeZone,

    /// The year that passes
    #[arg(long, value_name = "YEAR", default_value = "2026", value_parser = number(2000..=2100))]
    #[arg(allow_negative_numbers = true)]
    year: i16,

    /// After how many minutes a job looks at the clock again, in case it was set
    #[arg(long, value_name = "MINUTES", default_value = "10", value_parser = number(1..=60))]
    #[arg(default_value_if("short", "true", "60"), allow_negative_numbers = true)]
    look_every: i16,

    /// A quick look: the clock is looked at less often, unless that is given
    #[arg(long)]
    short: bool,
}

fn zone(name: &str) -> Result<TimeZone, String> {
    TimeZone::get(name).map_err(|_| "it takes a name of the time zone database, as America/New_York".into())
}

fn number(limits: RangeInclusive<i16>) -> impl Fn(&str) -> Result<i16, String> + Clone {
    move |text| {
        let number = text.parse().ok().filter(|number| limits.contains(number));
        number.ok_or_else(|| format!("it takes a number from {} to {}", limits.start(), limits.end()))
    }
}

/// Lets the year and the week pass, and returns what does not add up.
async fn run(Settings { zone, year, look_every, short: _ }: Settings) -> Result<Vec<String>, Box<dyn Error>> {
    let look_every = Duration::from_secs(60 * u64::try_from(look_every)?);
    let mut problems = year::run(&zone, year, look_every).await?;
    problems.extend(set_clock::run(year, look_every).await?);
    Ok(problems)
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> ExitCode {
    let problems = run(Settings::parse()).await.unwrap_or_else(|error| vec![error.to_string()]);
    problems.iter().for_each(|problem| eprintln!("error: {problem}"));
    if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
