//! A timer, as the tables of the simulated database have it.

use timingwheel_durable::store::{Failure, Near, NewTimer, Series, State, Stored};

#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) timer: Near,
    pub(crate) kind: String,
    pub(crate) payload: Vec<u8>,
    pub(crate) key: Option<String>,
    pub(crate) series: Option<Series>,
    pub(crate) attempts: u32,
    pub(crate) crashes: u32,
    pub(crate) failures: Vec<Failure>,
    pub(crate) ending: bool,
    pub(crate) version: u32,
    pub(crate) begun_by: Option<u64>,
}

impl Row {
    pub(crate) fn new(timer: NewTimer) -> Self {
        let NewTimer { id, kind, payload, key, series, .. } = timer;
        let (timer, failures) = (id.into(), Vec::new());
        Self {
            timer,
            kind,
            payload,
            key,
            series,
            attempts: 0,
            crashes: 0,
            failures,
            ending: false,
            version: 0,
            begun_by: None,
        }
    }

    pub(crate) fn stored(&self) -> Stored {
        let (id, kind) = (self.timer.id(), &self.kind);
        let mut stored = Stored::from(NewTimer {
            key: self.key.clone(),
            series: self.series.clone(),
            ..NewTimer::new(id, kind, self.payload.clone())
        });
        stored.timer = self.timer;
        (stored.attempts, stored.crashes) = (self.attempts, self.crashes);
        (stored.cancelled, stored.version) = (self.ending, self.version);
        stored.failures.clone_from(&self.failures);
        if let Some(epoch) = self.begun_by {
            stored.state = State::Begun { epoch, attempt: self.attempts };
        }
        stored
    }

    /// Its instance is gone: the attempt counts apart, and the timer is stored.
    pub(crate) fn crash(&mut self) {
        if self.begun_by.take().is_some() {
            self.crashes += 1;
            self.note(self.attempts, Some("its process ended before it answered".to_owned()));
        }
    }

    pub(crate) fn note(&mut self, attempt: u32, error: Option<String>) {
        self.failures.extend(error.map(|error| Failure { attempt, error, at: None }));
        self.failures = self.failures.split_off(self.failures.len().saturating_sub(10));
    }
}
