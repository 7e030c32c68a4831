//! What a user of tokio writes by hand: a mutex round a map of oneshot senders, and a timeout round each receiver. tokio's
//! timeout, or the wheel's, which is what a user of ours has who needs no conditions.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use timingwheel::TimingWheel;
use tokio::sync::oneshot;
use tokio::time::{Timeout, timeout};

use super::crowd::{Waiting, limit};

/// A map of senders, and a timeout round each receiver.
pub(super) struct Senders<T> {
    senders: Mutex<HashMap<u64, oneshot::Sender<u64>>>,
    timeouts: T,
}

/// Whose timeouts.
pub(super) trait Timeouts {
    type Timeout: Future<Output = Result<Received, Self::Elapsed>>;
    type Elapsed;

    fn timeout(&self, limit: Duration, receiver: oneshot::Receiver<u64>) -> Self::Timeout;
}

type Received = Result<u64, oneshot::error::RecvError>;

pub(super) struct Tokio;

impl Timeouts for Tokio {
    type Timeout = Timeout<oneshot::Receiver<u64>>;
    type Elapsed = tokio::time::error::Elapsed;

    fn timeout(&self, limit: Duration, receiver: oneshot::Receiver<u64>) -> Self::Timeout {
        timeout(limit, receiver)
    }
}

impl Timeouts for TimingWheel {
    type Timeout = timingwheel::Timeout<oneshot::Receiver<u64>>;
    type Elapsed = timingwheel::Elapsed;

    fn timeout(&self, limit: Duration, receiver: oneshot::Receiver<u64>) -> Self::Timeout {
        self.timeout(limit, receiver)
    }
}

impl<T: Timeouts> Senders<T> {
    pub(super) fn new(timeouts: T) -> Self {
        Self { senders: Mutex::default(), timeouts }
    }
}

impl<T: Timeouts> Waiting for Senders<T> {
    type Future = T::Timeout;

    fn watch(&mut self, key: u64) -> Self::Future {
        let (sender, receiver) = oneshot::channel();
        self.senders.lock().expect("no panic under it").insert(key, sender);
        self.timeouts.timeout(limit(key), receiver)
    }

    fn complete(&mut self, key: u64) {
        let sender = self.senders.lock().expect("no panic under it").remove(&key);
        sender.expect("it waits").send(key).expect("somebody waits for it");
    }

    fn is_complete(output: <Self::Future as Future>::Output) -> bool {
        matches!(output, Ok(Ok(_)))
    }

    fn len(&self) -> usize {
        self.senders.lock().expect("no panic under it").len()
    }
}
