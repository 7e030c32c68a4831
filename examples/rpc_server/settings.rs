//! The settings, their limits, and the errors beyond these.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, ValueEnum};
use indicatif::HumanCount;

use crate::limits::{whole, within};

/// A client has a port of its own, and one address has about 28,000 to give where Linux is as it comes.
const MAX_CONNECTIONS: u64 = 25_000;
const MAX_SECONDS: u64 = 3_600;
const MAX_MILLIS: u64 = 600_000;
/// How long a client thinks at most, as a multiple of the average.
pub(crate) const LONGEST_THINK: f64 = 1.5;

/// An RPC server with thousands of connections and their clients, on a timing wheel and then on tokio's timers:
/// how late the timers fire, and what they cost.
#[derive(Clone, Debug, Parser)]
#[command(name = "rpc_server")]
pub(crate) struct Settings {
    /// How many connections there are at a time, from 1 to 25,000, each with a client of its own; fewer if the file limit does not allow so many
    #[arg(long, value_name = "NUMBER", default_value = "5000", value_parser = whole(1..=MAX_CONNECTIONS))]
    #[arg(default_value_if("short", "true", "500"), allow_negative_numbers = true)]
    pub(crate) connections: u64,

    /// How many seconds the clients of a run make requests, from 1 to 3,600
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds(1..=MAX_SECONDS))]
    #[arg(default_value_if("short", "true", "1"), allow_negative_numbers = true)]
    pub(crate) seconds: Duration,

    /// After how many milliseconds a request is cut off, from 1 to 600,000
    #[arg(long, value_name = "MS", default_value = "250", value_parser = millis(1..=MAX_MILLIS))]
    #[arg(default_value_if("short", "true", "80"), allow_negative_numbers = true)]
    pub(crate) request_timeout: Duration,

    /// After how many milliseconds without a request the server closes a connection, from 1 to 600,000
    #[arg(long, value_name = "MS", default_value = "3000", value_parser = millis(1..=MAX_MILLIS))]
    #[arg(default_value_if("short", "true", "300"), allow_negative_numbers = true)]
    pub(crate) idle_timeout: Duration,

    /// How many milliseconds a client waits before a request, on average, from 1 to 600,000
    #[arg(long, value_name = "MS", default_value = "1000", value_parser = millis(1..=MAX_MILLIS))]
    #[arg(default_value_if("short", "true", "100"), allow_negative_numbers = true)]
    pub(crate) think: Duration,

    /// The share of requests whose work takes longer than the request timeout, from 0 to 1
    #[arg(long, value_name = "SHARE", default_value = "0.05", value_parser = share())]
    #[arg(allow_negative_numbers = true)]
    pub(crate) slow_share: f64,

    /// The share of answers after which a client goes silent until the server closes the connection, from 0 to 1
    #[arg(long, value_name = "SHARE", default_value = "0.02", value_parser = share())]
    #[arg(allow_negative_numbers = true)]
    pub(crate) silent_share: f64,

    /// The seed of the random numbers, the same in both runs, from 0 to 18,446,744,073,709,551,615
    #[arg(long, value_name = "NUMBER", default_value = "1", value_parser = whole(0..=u64::MAX))]
    #[arg(allow_negative_numbers = true)]
    pub(crate) seed: u64,

    /// Run on these timers only
    #[arg(long, value_name = "TIMERS")]
    only: Option<Side>,

    /// A quick look: fewer connections and shorter times, unless they are given
    #[arg(long)]
    short: bool,
}

/// The timers of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Side {
    Wheel,
    Tokio,
}

impl Settings {
    pub(crate) fn runs(&self, side: Side) -> bool {
        self.only.is_none_or(|only| only == side)
    }

    /// As many connections, for a second or two: no client thinks for longer, and none goes silent.
    pub(crate) fn to_warm_up(&self) -> Self {
        let second = Duration::from_secs(1);
        let (think, request_timeout) = (self.think.min(second), self.request_timeout.min(second));
        Self { seconds: second, think, request_timeout, silent_share: 0.0, ..self.clone() }
    }

    /// Refuses what no single setting can tell: an idle timeout that would close connections in use.
    pub(crate) fn checked(self) -> Self {
        let Self { idle_timeout, request_timeout, think, .. } = self;
        let busy = request_timeout + think.mul_f64(LONGEST_THINK);
        if idle_timeout <= busy {
            let words = format!(
                "--idle-timeout must be more than {} ms, got {}: connections in use would be closed in the request \
                 timeout and the longest think time, which is {LONGEST_THINK} times the average",
                busy.as_millis(),
                idle_timeout.as_millis(),
            );
            Self::command().error(ErrorKind::ValueValidation, words).exit();
        }
        self
    }
}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seconds, request_timeout, idle_timeout, think, slow_share, silent_share, .. } = self;
        writeln!(
            f,
            "{} connections for {} s, with a request about every {} ms",
            HumanCount(self.connections),
            seconds.as_secs(),
            think.as_millis()
        )?;
        writeln!(
            f,
            "request timeout {} ms; {} % of the requests take longer",
            request_timeout.as_millis(),
            percent(*slow_share)
        )?;
        write!(
            f,
            "idle timeout {} ms; after {} % of the answers the client falls silent",
            idle_timeout.as_millis(),
            percent(*silent_share)
        )
    }
}

/// To a hundredth.
fn percent(share: f64) -> f64 {
    (share * 10_000.0).round() / 100.0
}

fn share() -> impl Fn(&str) -> Result<f64, String> + Clone {
    within(0.0..=1.0, "a number")
}

fn seconds(limits: RangeInclusive<u64>) -> impl Fn(&str) -> Result<Duration, String> + Clone {
    move |text| whole(limits.clone())(text).map(Duration::from_secs)
}

fn millis(limits: RangeInclusive<u64>) -> impl Fn(&str) -> Result<Duration, String> + Clone {
    move |text| whole(limits.clone())(text).map(Duration::from_millis)
}
