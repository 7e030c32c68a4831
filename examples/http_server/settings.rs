//! The settings, their limits, and the errors beyond these.

use std::fmt;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use clap::builder::ArgPredicate;
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use indicatif::HumanCount;

use crate::Limits;
use crate::client::Kind;
use crate::limits::whole;
use crate::serve::By;

/// An HTTP server that bounds what its clients may take, with all its timers on a timing wheel.
#[derive(Clone, Debug, Parser)]
#[command(name = "http_server")]
pub(crate) struct Settings {
    /// How many clients of each sort there are, from 1 to 5,000: good, slow and idle ones
    #[arg(long, value_name = "NUMBER", default_value = "300", value_parser = whole(1..=5_000_u64))]
    #[arg(default_value_if("short", "true", "100"), allow_negative_numbers = true)]
    pub(crate) clients: u64,

    /// How many seconds the clients go on, from 1 to 3,600
    #[arg(long, value_name = "SECONDS", default_value = "8", value_parser = seconds(1..=3_600))]
    #[arg(default_value_if("short", "true", "2"), allow_negative_numbers = true)]
    pub(crate) seconds: Duration,

    /// How many milliseconds a request's head may take from when the server waits for it, idle time included, from 100 to
    /// 600,000
    #[arg(long, value_name = "MS", default_value = "1000", value_parser = millis(100..=600_000))]
    #[arg(default_value_ifs([("short", "true".into(), "300"), ("serve", ArgPredicate::IsPresent, "30000")]))]
    #[arg(allow_negative_numbers = true)]
    header_timeout: Duration,

    /// After how many milliseconds a request is answered with 504, from 10 to 600,000
    #[arg(long, value_name = "MS", default_value = "250", value_parser = millis(10..=600_000))]
    #[arg(default_value_ifs([("short", "true".into(), "100"), ("serve", ArgPredicate::IsPresent, "30000")]))]
    #[arg(allow_negative_numbers = true)]
    request_timeout: Duration,

    /// After how many milliseconds a connection is closed between two requests, from 200 to 3,600,000
    #[arg(long, value_name = "MS", default_value = "3000", value_parser = millis(200..=3_600_000))]
    #[arg(default_value_if("short", "true", "900"), allow_negative_numbers = true)]
    keep_alive: Duration,

    /// A quick look: fewer clients and shorter times, unless they are given
    #[arg(long)]
    short: bool,

    /// Only serve, at this address, until standard input ends; then tell CPU time, context switches and requests. Both
    /// timeouts are 30 s then, unless they are given, and connections have no limit
    #[arg(long, value_name = "ADDRESS", value_parser = address, allow_hyphen_values = true)]
    #[arg(conflicts_with_all = ["clients", "seconds", "keep_alive", "short"])]
    pub(crate) serve: Option<SocketAddr>,

    /// By which timers `--serve` bounds what clients take
    #[arg(long, value_name = "TIMERS", default_value = "wheel", requires = "serve")]
    pub(crate) timers: By,
}

impl Limits {
    pub(crate) fn longest(&self) -> Duration {
        self.header_timeout.max(self.request_timeout).max(self.keep_alive)
    }
}

impl Settings {
    pub(crate) fn limits(&self) -> Limits {
        let Self { header_timeout, request_timeout, keep_alive, .. } = *self;
        Limits { header_timeout, request_timeout, keep_alive }
    }

    /// Refuses what no single setting can tell: connections that would be too old before they are slow.
    pub(crate) fn checked(self) -> Self {
        let least = 2 * self.header_timeout;
        if self.serve.is_none() && self.keep_alive < least {
            let words = format!(
                "--keep-alive must be at least twice the header timeout, {} ms, got {}: it would close slow connections \
                 for their age",
                least.as_millis(),
                self.keep_alive.as_millis(),
            );
            Self::command().error(ErrorKind::ValueValidation, words).exit();
        }
        self
    }
}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Limits { header_timeout, request_timeout, keep_alive } = self.limits();
        write!(
            f,
            "{} clients for {:?}, a third each good, slow and idle.\nA head may take {header_timeout:?}, an answer \
             {request_timeout:?}, a connection {keep_alive:?}.",
            HumanCount(self.clients * Kind::ALL.len() as u64),
            self.seconds,
        )
    }
}

fn seconds(limits: RangeInclusive<u64>) -> impl Fn(&str) -> Result<Duration, String> + Clone {
    move |text| whole(limits.clone())(text).map(Duration::from_secs)
}

fn millis(limits: RangeInclusive<u64>) -> impl Fn(&str) -> Result<Duration, String> + Clone {
    move |text| whole(limits.clone())(text).map(Duration::from_millis)
}

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        format!(
            "it must be an IP address and a port, as 127.0.0.1:8080, or port 0 for a free one, got {text}"
        )
    })
}
