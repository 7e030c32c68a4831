//! A trace of events, with their instants.

use std::fmt::Display;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::runtime::{Handle, Id};
use tokio::time::Instant;

use crate::paused;

/// An event with the time since the start.
pub(crate) type Event = (Duration, String);

/// Notes events of all tasks that have a clone of it.
#[derive(Clone, Debug)]
pub(crate) struct Trace {
    runtime: Id,
    start: Instant,
    events: Arc<Mutex<Vec<Event>>>,
}

impl Trace {
    fn start() -> Self {
        Self { runtime: Handle::current().id(), start: Instant::now(), events: Arc::default() }
    }

    /// Outside its runtime, where the time is real and so never the same, the event has none.
    pub(crate) fn note(&self, event: impl Display) {
        let is_here = Handle::try_current().is_ok_and(|runtime| runtime.id() == self.runtime);
        let at = if is_here { self.start.elapsed() } else { Duration::ZERO };
        self.events.lock().expect("not poisoned").push((at, event.to_string()));
    }

    /// An instant, as what can be compared with that of another run.
    pub(crate) fn note_instant(&self, name: &str, instant: Instant) {
        match instant.checked_duration_since(self.start) {
            Some(after) => self.note(format_args!("{name} {after:?} after the start")),
            None => self.note(format_args!("{name} {:?} before the start", self.start - instant)),
        }
    }

    pub(crate) fn start_instant(&self) -> Instant {
        self.start
    }
}

/// Runs `body` on a paused clock of its own, and returns what it noted.
pub(crate) fn run(body: impl AsyncFnOnce(Trace)) -> Vec<Event> {
    let runtime = paused();
    let events = runtime.block_on(async {
        let trace = Trace::start();
        body(trace.clone()).await;
        trace.events
    });
    drop(runtime);
    std::mem::take(&mut *events.lock().expect("not poisoned"))
}

/// Both have to note the same events at the same instants in the same order, and some at all.
#[track_caller]
pub(crate) fn assert_same(tokios: impl AsyncFnOnce(Trace), ours: impl AsyncFnOnce(Trace)) {
    let (tokios, ours) = (run(tokios), run(ours));
    assert!(!tokios.is_empty(), "nothing was noted");
    for (number, (tokios, ours)) in tokios.iter().zip(&ours).enumerate() {
        assert_eq!(ours, tokios, "event {number}: ours, and tokio's");
    }
    assert_eq!(ours.len(), tokios.len());
}
