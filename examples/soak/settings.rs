//! The settings, their limits, and the errors beyond these.

use std::fmt;
use std::thread::available_parallelism;
use std::time::Duration;

use clap::Parser;
use indicatif::{HumanCount, HumanDuration};

use crate::limits::{whole, within};

/// A day.
const MAX_MINUTES: f64 = 24.0 * 60.0;
const MIN_MINUTES: f64 = 0.02;
/// How many times it is checked in a run, unless that would be seldom.
const CHECKS: u32 = 20;
const BETWEEN_CHECKS: Duration = Duration::from_secs(30);

/// One wheel, used in every way and at full speed while workers stall: does it keep what it promises?
#[derive(Clone, Debug, Parser)]
#[command(name = "soak")]
pub(crate) struct Settings {
    /// How many minutes it runs, from 0.02 to 1,440
    #[arg(long, value_name = "MINUTES", default_value = "1", value_parser = within(MIN_MINUTES..=MAX_MINUTES, "a number"))]
    #[arg(default_value_if("short", "true", "0.05"), allow_negative_numbers = true)]
    minutes: f64,

    /// How many tasks use the wheel, from 10 to 1,000,000
    #[arg(long, value_name = "NUMBER", default_value = "2000", value_parser = whole(10..=1_000_000_u64))]
    #[arg(allow_negative_numbers = true)]
    pub(crate) tasks: u64,

    /// How many workers the runtime has, from 1 to 1,024, if not one for each processor and two at least
    #[arg(long, value_name = "NUMBER", default_value_t = workers(), value_parser = whole(1..=1_024_usize))]
    #[arg(allow_negative_numbers = true)]
    pub(crate) workers: usize,

    /// The seed of the random numbers, from 0 to 4,294,967,296
    #[arg(long, value_name = "NUMBER", default_value = "1", value_parser = whole(0..=1_u64 << 32))]
    #[arg(allow_negative_numbers = true)]
    pub(crate) seed: u64,

    /// A quick look of three seconds, unless it is told how long
    #[arg(long)]
    short: bool,
}

fn workers() -> usize {
    available_parallelism().map_or(2, |processors| processors.get().max(2))
}

impl Settings {
    pub(crate) fn length(&self) -> Duration {
        Duration::from_secs_f64(self.minutes * 60.0)
    }

    pub(crate) fn between_checks(&self) -> Duration {
        BETWEEN_CHECKS.min(self.length() / CHECKS)
    }
}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { minutes: _, tasks, workers, seed, short: _ } = self;
        write!(
            f,
            "{} tasks on {workers} workers for {}, from seed {seed}",
            HumanCount(*tasks),
            HumanDuration(self.length())
        )
    }
}
