//! The events that the server notes, and the requests of its clients.

use std::sync::Mutex;
use std::time::Duration;

use hdrhistogram::Histogram;
use timingwheel_examples::Count;
use tokio::time::Instant;

/// A request for work that is done in time.
pub(crate) const SHORT: u8 = b's';
/// A request for work that takes too long.
pub(crate) const LONG: u8 = b'l';
/// The reply to what was done in time.
pub(crate) const ANSWER: u8 = b'a';
/// The reply to what took too long.
pub(crate) const GIVEN_UP: u8 = b'g';

/// The server's books.
#[derive(Debug)]
pub(crate) struct Books {
    pub(crate) answered: Count,
    pub(crate) given_up: Count,
    pub(crate) idle: Count,
    pub(crate) ticks: Count,
    pub(crate) early: Count,
    lateness: Mutex<Histogram<u64>>,
}

impl Books {
    pub(crate) fn new() -> Self {
        Self {
            answered: Count::default(),
            given_up: Count::default(),
            idle: Count::default(),
            ticks: Count::default(),
            early: Count::default(),
            lateness: Mutex::new(Histogram::new(3).expect("three digits are in range")),
        }
    }

    /// A timer that was due at `deadline` was noticed `now`.
    pub(crate) fn fired(&self, deadline: Instant, now: Instant) {
        match now.checked_duration_since(deadline) {
            Some(late) => {
                let late = u64::try_from(late.as_nanos()).expect("not 584 years late");
                self.lateness.lock().expect("not poisoned").record(late).expect("it grows as needed");
            }
            None => self.early.add(),
        }
    }

    pub(crate) fn lateness(&self, quantile: f64) -> Duration {
        Duration::from_nanos(self.lateness.lock().expect("not poisoned").value_at_quantile(quantile))
    }
}
