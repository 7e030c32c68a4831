//! A structure that is turned by the thread that uses it, as Kafka's reaper turns the purgatory.

use timingwheel::wheel::Nanos;

use super::TIMEOUT;
use super::replay::{Outcome, Watch};
use crate::structures::Timers;

pub(super) struct Direct<T: Timers> {
    timers: T,
    /// For each request its timer, and when it was started.
    started: Vec<(T::Handle, Nanos)>,
    fired: Vec<u32>,
    outcome: Outcome,
}

impl<T: Timers + Send + 'static> Watch for Direct<T>
where
    T::Handle: Send,
{
    fn new(requests: usize, pending: usize) -> Self {
        Self {
            timers: T::new(pending),
            started: Vec::with_capacity(requests),
            fired: Vec::new(),
            outcome: Outcome::default(),
        }
    }

    fn arrive(&mut self, now: Nanos) {
        let request = u32::try_from(self.started.len()).expect("few enough requests");
        self.started.push((self.timers.start(now, now.after(TIMEOUT), request), now));
    }

    fn complete(&mut self, request: u32, _now: Nanos) {
        self.outcome.completed += usize::from(self.timers.stop(self.started[request as usize].0));
    }

    async fn turn(&mut self, now: Nanos) {
        self.timers.advance(now, &mut self.fired);
        self.outcome.timed_out += self.fired.len();
        for request in self.fired.drain(..) {
            let (_, started) = self.started[request as usize];
            assert!(started.after(TIMEOUT) <= now, "{} fired a timer early", T::NAME);
        }
    }

    fn overdue_since(&self, now: Nanos) -> Nanos {
        // Each turn fires all that is due.
        now
    }

    fn outcome(&self) -> Outcome {
        self.outcome
    }
}
