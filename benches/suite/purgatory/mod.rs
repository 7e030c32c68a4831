//! At which rate of requests can a structure still watch over their timeouts? Kafka's purgatory experiment.
//!
//! Requests arrive at random, with exponential gaps. Each is complete after a random time, log-normal, and times out
//! after 200 ms. When it is complete in time its timer is cancelled; otherwise the timer fires. All of this is drawn up
//! beforehand. One thread then goes through it by the wall clock, a tenth of a millisecond at a time: it does what is
//! due by then, and turns the structure. What it is behind the clock is its backlog. A rate is sustained if the backlog
//! stays below 50 ms, and no timer is overdue for longer, in one of three runs of a second of requests each. The
//! highest such rate is found by bisection over rates of which each is 15 % higher than the last.
//!
//! Beside timers alone there are whole purgatories: a request is an operation with a condition, under a key of its own
//! and one that all share and nobody checks.

mod by_key;
mod crowd;
mod direct;
mod heap_purgatory;
mod nothing;
mod operations;
mod replay;
mod report;
mod schedule;
mod search;
mod senders;
mod sleeps;

use std::time::Duration;

use crate::support::Case;

/// After this a request has failed.
const TIMEOUT: Duration = Duration::from_millis(200);
/// As many slots as the wheels of Kafka's purgatory have.
const SLOTS: usize = 20;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "purgatory_by_key",
            "What does it cost to watch an operation under a key and to complete it, beside a map of senders?",
            by_key::run,
        ),
        Case::new(
            "purgatory",
            "At which rate of requests can a structure still watch over their timeouts, in Kafka's experiment?",
            report::run,
        ),
    ]
}
