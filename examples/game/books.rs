//! A plain map of the events that should happen, compared with those that did.

use std::collections::HashMap;
use std::error::Error;
use std::time::Duration;

use hdrhistogram::Histogram;
use tokio::time::Instant;

use crate::world::Event;

/// The tick of the global wheel. The queue tells what is due within one tick in any order.
const TICK: Duration = Duration::from_millis(1);

pub(crate) struct Books {
    due: HashMap<Event, Instant>,
    last: Instant,
    pub(crate) lateness: Histogram<u64>,
    pub(crate) out_of_order: u64,
    /// Events at another time than the map says, of any kind: happened, moved, taken out or refused.
    pub(crate) unexpected: u64,
}

impl Books {
    pub(crate) fn new(start: Instant) -> Result<Self, Box<dyn Error>> {
        let (due, lateness) = (HashMap::new(), Histogram::new(3)?);
        Ok(Self { due, last: start, lateness, out_of_order: 0, unexpected: 0 })
    }

    /// How many events should still happen.
    pub(crate) fn pending(&self) -> usize {
        self.due.len()
    }

    pub(crate) fn begins(&mut self, event: Event, deadline: Instant) {
        self.unexpected += u64::from(self.due.insert(event, deadline).is_some());
    }

    pub(crate) fn is_moved(&mut self, event: Event, deadline: Instant) {
        self.unexpected += u64::from(self.due.insert(event, deadline).is_none());
    }

    /// It has been taken out with this deadline, if it was there.
    pub(crate) fn is_taken_out(&mut self, event: Event, deadline: Option<Instant>) {
        let expected = self.due.remove(&event);
        self.unexpected += u64::from(expected.is_none() || expected != deadline);
    }

    pub(crate) fn happens(&mut self, event: Event, deadline: Instant) -> Result<(), Box<dyn Error>> {
        let now = Instant::now();
        // Not counted: a tick that is early leads to the next, which may be early again, and so on.
        if now < deadline {
            return Err(format!("something came {:?} before its time", deadline - now).into());
        }
        self.out_of_order += u64::from(deadline + TICK < self.last);
        self.unexpected += u64::from(self.due.remove(&event) != Some(deadline));
        self.last = deadline;
        self.lateness.record((now - deadline).as_nanos().try_into()?)?;
        Ok(())
    }

    /// It keeps something from being done.
    pub(crate) fn refuses(&mut self, event: Event) {
        self.unexpected += u64::from(!self.due.contains_key(&event));
    }
}
