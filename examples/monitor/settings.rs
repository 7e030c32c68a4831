//! The settings, and the limits of health.

use std::time::Duration;

use clap::Parser;
use timingwheel::monitor::Limits;

use crate::limits::whole;

/// A wheel under load that is watched: by Prometheus, a health check, and people.
#[derive(Clone, Copy, Parser)]
#[command(name = "monitor")]
pub(crate) struct Settings {
    /// How many tasks make calls, one after the other, from 1 to 100,000
    #[arg(long, value_name = "NUMBER", default_value = "2000", value_parser = whole(1..=100_000_usize))]
    #[arg(default_value_if("short", "true", "500"), allow_negative_numbers = true)]
    pub(crate) tasks: usize,

    /// How many seconds they go on, from 1 to 86,400
    #[arg(long, value_name = "SECONDS", default_value = "6", value_parser = whole(1..=86_400_u64))]
    #[arg(default_value_if("short", "true", "2"), allow_negative_numbers = true)]
    pub(crate) seconds: u64,

    /// The port to serve on, from 0 to 65,535; 0 takes any that is free
    #[arg(long, value_name = "PORT", default_value = "0", value_parser = whole(0..=65_535_u16))]
    #[arg(allow_negative_numbers = true)]
    pub(crate) port: u16,

    /// A quick look: fewer tasks and a shorter time, unless they are given
    #[arg(long)]
    short: bool,
}

/// The limits of this wheel's health, so generous that a busy machine keeps them.
#[derive(Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) pending: usize,
    pub(crate) lateness: Duration,
    pub(crate) lock_hold: Duration,
    pub(crate) overdue: Duration,
}

impl Bounds {
    pub(crate) const fn new(pending: usize) -> Self {
        let half_a_second = Duration::from_millis(500);
        Self { pending, lateness: half_a_second, lock_hold: half_a_second, overdue: Duration::from_secs(1) }
    }

    pub(crate) fn limits(self) -> Limits {
        Limits {
            pending: Some(self.pending),
            lateness: vec![(0.99, self.lateness)],
            lock_hold: Some(self.lock_hold),
            overdue: Some(self.overdue),
            refused: Some(0),
            wakers_panicked: Some(0),
            ..Limits::default()
        }
    }
}
