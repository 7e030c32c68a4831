//! [`Report`]: what a server's layer tells of a request when it is over.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::time::Instant;

use crate::deadline::Deadline;
use crate::ended::Ended;

/// How a request ended, and how much of its time it used: see [`ServerLayer::on_end`](super::ServerLayer::on_end).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// How it ended.
    pub outcome: Outcome,
    /// The time from when the request came in to the end of its response's body.
    pub used: Duration,
    /// The time that it had as it came in; `None` without a limit.
    pub limit: Option<Duration>,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Outcome {
    /// By its response, with the whole body.
    Answered,
    /// By an error or a panic, of the service or of the body.
    Failed,
    /// By its deadline. If `used` is zero, the request came too late.
    Ended(Ended),
    /// The response, or the rest of it, was dropped: its caller has gone.
    HungUp,
}

#[derive(Clone)]
pub(super) struct Callback(pub(super) Arc<dyn Fn(&Report) + Send + Sync>);

impl fmt::Debug for Callback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Callback")
    }
}

/// A request that is not over. Where it is dropped, the caller has gone or the handler panics, and its deadline is cancelled.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) deadline: Deadline,
    callback: Option<Callback>,
    begun: Instant,
    limit: Option<Duration>,
    outcome: Outcome,
}

impl Request {
    pub(super) fn new(deadline: Deadline, callback: Option<Callback>) -> Self {
        let begun = deadline.wheel().current_time();
        let limit = deadline.instant().map(|instant| instant.saturating_duration_since(begun));
        Self { deadline, callback, begun, limit, outcome: Outcome::HungUp }
    }

    pub(super) fn over(mut self, outcome: Outcome) {
        self.outcome = outcome;
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        if self.outcome == Outcome::HungUp {
            self.deadline.cancel();
            if thread::panicking() {
                self.outcome = Outcome::Failed;
            }
        }
        if let Some(Callback(callback)) = &self.callback {
            let used = self.deadline.wheel().current_time().saturating_duration_since(self.begun);
            let report = Report { outcome: self.outcome, used, limit: self.limit };
            // A second panic while that of a handler unwinds would abort the process.
            _ = catch_unwind(AssertUnwindSafe(|| callback(&report)));
        }
    }
}
