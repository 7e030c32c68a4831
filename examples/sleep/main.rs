//! How late does a timer fire: on a wheel with a tick of 1 ms, on one with 100 µs, and on `tokio::time`?
//!
//! `cargo run --release -p timingwheel-examples --example sleep`, or with `-- --help` for the settings and `-- --short`
//! for a quick look.
//!
//! The functions below sleep, and return how late they end: by the timer's lateness and the time that the machine takes
//! to wake a task. Copy them to measure your machine. The rest lets many tasks sleep for random times, on one timer after
//! the other, in several rounds. The closing table has all timers side by side. If one fired early, or if the wheels' own
//! counts do not agree with the tasks', the program says so and exits with 1.

use std::error::Error;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use comfy_table::presets::ASCII_MARKDOWN;
use comfy_table::{CellAlignment, Table};
use hdrhistogram::Histogram;
use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use timingwheel::{BuildError, TimingWheel};
use timingwheel_examples::{verdict, whole};
use tokio::task::JoinSet;

/// A wheel, which may be turned once in a `tick`.
fn wheel_with(tick: Duration) -> Result<TimingWheel, BuildError> {
    TimingWheel::builder().tick(tick).build()
}

/// How late a sleep ended on a wheel. `None`: it was early, which never happens.
async fn lateness_on(wheel: &TimingWheel, delay: Duration) -> Option<Duration> {
    let deadline = Instant::now() + delay;
    wheel.sleep(delay).await;
    Instant::now().checked_duration_since(deadline)
}

/// The same on tokio's timers.
async fn lateness_on_tokio(delay: Duration) -> Option<Duration> {
    let deadline = Instant::now() + delay;
    tokio::time::sleep(delay).await;
    Instant::now().checked_duration_since(deadline)
}

// Tasks that sleep on one timer after the other, and their lateness.

const ROUNDS: u64 = 3;
/// The closing lines, which say what the table means.
const MEANING: &str = "\
What it means: a wheel's timers are late by less than a tick, or two where many
fire, plus the time that the machine takes to run a task. tokio's wait for the
end of their millisecond. A shorter tick is more precise, but each turn of the
wheel costs CPU time.";

const SHORTEST: Duration = Duration::from_millis(1);

/// How late timers fire, on timing wheels and on tokio's own.
#[derive(Parser)]
#[command(name = "sleep")]
struct Settings {
    /// How many tasks sleep at once, from 1 to 1,000,000
    #[arg(long, value_name = "NUMBER", default_value = "20000", value_parser = whole(1..=1_000_000_u64))]
    #[arg(default_value_if("short", "true", "5000"), allow_negative_numbers = true)]
    sleeps: u64,

    /// How many milliseconds a task sleeps at most, from 2 to 60,000
    #[arg(long, value_name = "MS", default_value = "1000", value_parser = whole(2..=60_000_u64))]
    #[arg(default_value_if("short", "true", "200"), allow_negative_numbers = true)]
    longest: u64,

    /// The ticks of the wheels, in microseconds from 1 to 1,000,000, with commas between them
    #[arg(long, value_name = "MICROSECONDS", default_value = "1000,100", value_delimiter = ',')]
    #[arg(value_parser = whole(1..=1_000_000_u64), allow_negative_numbers = true)]
    ticks: Vec<u64>,

    /// A quick look: fewer and shorter sleeps, unless they are given
    #[arg(long)]
    short: bool,
}

/// A kind of timer, and its results.
struct Timer {
    name: String,
    /// None is `tokio::time`.
    wheel: Option<TimingWheel>,
    early: u64,
    /// In nanoseconds.
    lateness: Histogram<u64>,
}

impl Timer {
    fn new(name: String, wheel: Option<TimingWheel>) -> Result<Self, Box<dyn Error>> {
        Ok(Self { name, wheel, early: 0, lateness: Histogram::new(3)? })
    }

    /// Lets `sleeps` tasks sleep at once.
    async fn round(
        &mut self,
        sleeps: u64,
        longest: Duration,
        bar: &ProgressBar,
    ) -> Result<(), Box<dyn Error>> {
        let mut tasks = JoinSet::new();
        for _ in 0..sleeps {
            let delay = SHORTEST + (longest - SHORTEST).mul_f64(fastrand::f64());
            let wheel = self.wheel.clone();
            tasks.spawn(async move {
                match wheel {
                    Some(wheel) => lateness_on(&wheel, delay).await,
                    None => lateness_on_tokio(delay).await,
                }
            });
        }
        while let Some(late) = tasks.join_next().await {
            match late? {
                Some(late) => self.lateness.record(u64::try_from(late.as_nanos())?)?,
                None => self.early += 1,
            }
            bar.inc(1);
        }
        Ok(())
    }

    fn quantile(&self, quantile: f64) -> String {
        millis(self.lateness.value_at_quantile(quantile))
    }

    fn row(&self) -> [String; 7] {
        let turns = self.wheel.as_ref().map(|wheel| wheel.stats().turns);
        [
            self.name.clone(),
            HumanCount(self.lateness.len() + self.early).to_string(),
            HumanCount(self.early).to_string(),
            self.quantile(0.5),
            self.quantile(0.99),
            millis(self.lateness.max()),
            turns.map_or("-".into(), |turns| HumanCount(turns).to_string()),
        ]
    }

    /// Counts that do not add up.
    fn problems(&self, sleeps: u64) -> Vec<String> {
        let mut problems = Vec::new();
        let slept = self.lateness.len() + self.early;
        if slept != sleeps {
            problems.push(format!("{}: {slept} of {sleeps} sleeps came to an end", self.name));
        }
        if self.early > 0 {
            problems.push(format!("{}: {} timers fired early", self.name, self.early));
        }
        if let Some(stats) = self.wheel.as_ref().map(TimingWheel::stats) {
            // All but the few whose task was held up, so that the deadline came before the first poll.
            if stats.armed > sleeps || stats.armed < sleeps - sleeps / 100 {
                problems.push(format!("{}: {} of {sleeps} timers reached it", self.name, stats.armed));
            }
            if stats.fired != stats.armed || stats.pending > 0 {
                problems.push(format!("{}: not every timer that reached it fired: {stats:?}", self.name));
            }
        }
        problems
    }
}

fn millis(nanos: u64) -> String {
    format!("{:.3} ms", Duration::from_nanos(nanos).as_secs_f64() * 1e3)
}

#[tokio::main]
async fn main() -> ExitCode {
    let problems = compare(Settings::parse()).await.unwrap_or_else(|error| vec![error.to_string()]);
    verdict(&problems)
}

async fn compare(settings: Settings) -> Result<Vec<String>, Box<dyn Error>> {
    let Settings { sleeps, longest, ticks, short: _ } = settings;
    let mut timers = Vec::new();
    for tick in ticks.into_iter().map(Duration::from_micros) {
        timers.push(Timer::new(format!("tick {tick:?}"), Some(wheel_with(tick)?))?);
    }
    timers.push(Timer::new("tokio::time".into(), None)?);
    println!(
        "{ROUNDS} rounds of {} sleeps at once, each of 1 to {longest} ms.\nHow late they ended:\n",
        HumanCount(sleeps)
    );

    let style = ProgressStyle::with_template("{prefix:11} {wide_bar} {human_pos} of {human_len}")?;
    let bar = ProgressBar::new(sleeps * ROUNDS * timers.len() as u64).with_style(style);
    for _ in 0..ROUNDS {
        // In turn, so that a noisy machine disturbs all alike.
        for timer in &mut timers {
            bar.set_prefix(timer.name.clone());
            timer.round(sleeps, Duration::from_millis(longest), &bar).await?;
        }
    }
    bar.finish_and_clear();

    let mut table = Table::new();
    table.load_preset(ASCII_MARKDOWN);
    table.set_header(["timers", "sleeps", "early", "late: half", "99 %", "all within", "turns"]);
    table.add_rows(timers.iter().map(Timer::row));
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    println!("{table}\n\n{MEANING}");
    Ok(timers.iter().flat_map(|timer| timer.problems(sleeps * ROUNDS)).collect())
}
