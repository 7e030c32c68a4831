//! The rivals, and their settings.

mod graphile;
mod ours;
mod underway;

use std::any::Any;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::instance::Calls;

/// What all have for a payload.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    due_ms: i64,
    filler: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    Ours,
    Graphile,
    Underway,
}

/// How a rival is set up. Ours is always the same.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Setup {
    /// As it is if nobody sets anything.
    AsShipped,
    /// For as many jobs a second as it can.
    Tuned,
}

impl Setup {
    const ALL: [Self; 2] = [Self::AsShipped, Self::Tuned];

    pub(crate) fn name(self) -> &'static str {
        ["as-shipped", "tuned"][self as usize]
    }

    pub(crate) fn named(name: &str) -> Self {
        Self::ALL.into_iter().find(|setup| setup.name() == name).expect("one of them")
    }
}

impl Who {
    pub(crate) const ALL: [Self; 3] = [Self::Ours, Self::Graphile, Self::Underway];

    pub(crate) fn index(self) -> usize {
        self as usize
    }

    /// Of its process and its database.
    pub(crate) fn name(self) -> &'static str {
        ["ours", "graphile", "underway"][self.index()]
    }

    pub(crate) fn named(name: &str) -> Self {
        Self::ALL.into_iter().find(|who| who.name() == name).expect("one of them")
    }

    pub(crate) fn title(self, setup: Setup) -> &'static str {
        match (self, setup) {
            (Self::Ours, _) => "ours",
            (Self::Graphile, Setup::AsShipped) => "graphile_worker as shipped, poll of 1 s",
            (Self::Graphile, Setup::Tuned) => "graphile_worker with its local queue, poll of 5 ms",
            (Self::Underway, Setup::AsShipped) => "underway as shipped, poll of 1 min",
            (Self::Underway, Setup::Tuned) => "underway, poll of 10 ms",
        }
    }

    /// Jobs that it drains within a second or two.
    pub(crate) fn few(self) -> u64 {
        [20_000, 20_000, 500][self.index()]
    }

    /// How long after the last job was due all may take.
    pub(crate) fn patience(self, setup: Setup) -> Duration {
        match (self, setup) {
            (Self::Underway, Setup::AsShipped) => Duration::from_secs(70),
            _ => Duration::from_secs(20),
        }
    }

    /// Handles jobs until what it answers is dropped.
    pub(crate) async fn start(self, url: &str, setup: Setup, calls: &Calls) -> Box<dyn Any> {
        match self {
            Self::Ours => ours::start(url, calls).await,
            Self::Graphile => graphile::start(url, setup, calls).await,
            Self::Underway => underway::start(url, setup, calls).await,
        }
    }

    /// Stores so many jobs in one transaction, due from an instant on, one each so many seconds.
    pub(crate) fn store(self, count: u64, first: &str, apart: f64) -> String {
        let due = "(extract(epoch from due) * 1000)::bigint";
        let payload = format!("json_build_object('due_ms', {due}, 'filler', repeat('x', 64))");
        // To the millisecond, as ours are stored.
        let first = format!("date_trunc('milliseconds', {first})");
        let due = format!("{first} + date_trunc('milliseconds', n * {apart} * interval '1 second')");
        let all = format!("(select {due} as due from generate_series(0, {count} - 1) n) jobs");
        match self {
            Self::Ours => ours::store(&payload, &all),
            Self::Graphile => graphile::store(&payload, &all),
            Self::Underway => underway::store(&payload, &all),
        }
    }

    /// The jobs that are not done.
    pub(crate) fn left(self) -> &'static str {
        match self {
            Self::Ours => "timingwheel.timers",
            Self::Graphile => "graphile_worker._private_jobs",
            Self::Underway => "underway.task where state <> 'succeeded'",
        }
    }
}
