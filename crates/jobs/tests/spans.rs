//! Jobs and the tracing spans in which they are made. In a process of its own: what tracing knows of an event is shared by all
//! threads.

#![cfg(feature = "tracing")]

#[path = "it/limit.rs"]
mod limit;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use timingwheel::TimingWheel;
use timingwheel_jobs::{FixedRate, Jobs, JobsExt, Schedule};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Span, Subscriber};
use tracing_core::span::Current;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

async fn panics() {
    panic!("as asked");
}

/// Knows the span in which its thread is, and notes the parents of events.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    all: HashMap<u64, &'static Metadata<'static>>,
    entered: Vec<Id>,
    events: Vec<(Level, Option<Id>)>,
}

impl Subscriber for Notes {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut inner = self.0.lock().unwrap();
        let id = inner.all.len() as u64 + 1;
        inner.all.insert(id, span.metadata());
        Id::from_u64(id)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        self.0.lock().unwrap().events.push((*event.metadata().level(), event.parent().cloned()));
    }

    fn enter(&self, span: &Id) {
        self.0.lock().unwrap().entered.push(span.clone());
    }

    fn exit(&self, _: &Id) {
        self.0.lock().unwrap().entered.pop();
    }

    fn current_span(&self) -> Current {
        let inner = self.0.lock().unwrap();
        match inner.entered.last() {
            Some(id) => Current::new(id.clone(), inner.all[&id.into_u64()]),
            None => Current::none(),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn each_run_is_in_the_span_in_which_its_job_was_made_and_so_is_the_event_of_its_panic() {
    limit::limit_this_test();
    let notes = Notes::default();
    let _guard = tracing::subscriber::set_default(notes.clone());
    let (wheel, jobs) = (TimingWheel::new(), Jobs::new(&TimingWheel::new()));
    let spans = [tracing::info_span!("a job"), tracing::info_span!("runs"), tracing::info_span!("panics")];
    let [once, again, panicking] = &spans;
    let ran = Arc::new(Mutex::new(Vec::new()));
    let note = ran.clone();
    let once = once.in_scope(|| wheel.run_after(ms(5), async { Span::current().id() }));
    let make = move || {
        let note = note.clone();
        async move { note.lock().unwrap().push(Span::current().id()) }
    };
    let again = again.in_scope(|| wheel.run_by(FixedRate::new(ms(10)).starting_after(ms(10)).times(2), make));
    panicking.in_scope(|| jobs.try_run_after(1, ms(86_400_000), panics()).unwrap());
    jobs.join(&1).unwrap().await;
    assert_eq!((once.await.unwrap(), again.await.unwrap()), (spans[0].id(), 2));
    assert_eq!(*ran.lock().unwrap(), [spans[1].id(), spans[1].id()]);
    let events = notes.0.lock().unwrap().events.clone();
    assert!(events.contains(&(Level::ERROR, spans[2].id())), "{events:?}");
    assert_eq!(Span::current().id(), None);
}
