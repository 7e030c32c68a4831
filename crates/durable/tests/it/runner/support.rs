//! Handlers that write down what they were called for.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use timingwheel::TimingWheel;
use timingwheel_durable::{
    Answer, Backoff, Builder, Durable, HandlerResult, Kind, MemoryStore, Run, SetClock,
};

/// A payload that says what is to become of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Note {
    pub(crate) text: String,
    /// So many attempts fail.
    #[serde(default)]
    pub(crate) fails: u32,
    /// It takes so many seconds.
    #[serde(default)]
    pub(crate) takes: u64,
}

impl Kind for Note {
    const KIND: &'static str = "note";
}

pub(crate) fn note(text: &str) -> Note {
    Note { text: text.into(), fails: 0, takes: 0 }
}

#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) text: String,
    pub(crate) run: Run,
    /// What the wall showed.
    pub(crate) at: Timestamp,
}

/// All that was called, in order.
#[derive(Clone, Default)]
pub(crate) struct Book(Arc<Mutex<Vec<Call>>>);

impl Book {
    pub(crate) fn calls(&self) -> Vec<Call> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn texts(&self) -> Vec<String> {
        self.calls().into_iter().map(|call| call.text).collect()
    }

    /// What was called, and how many seconds after the start.
    pub(crate) fn times(&self) -> Vec<(String, f64)> {
        let since = |call: &Call| call.at.duration_since(start()).as_secs_f64();
        self.calls().iter().map(|call| (call.text.clone(), since(call))).collect()
    }

    fn write(&self, text: &str, run: Run, at: Timestamp) {
        self.0.lock().unwrap().push(Call { text: text.to_owned(), run, at });
    }
}

pub(crate) fn start() -> Timestamp {
    "2026-06-01T00:00:00Z".parse().unwrap()
}

pub(crate) fn at(seconds: f64) -> Timestamp {
    start() + SignedDuration::from_secs_f64(seconds)
}

pub(crate) fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) struct Rig {
    pub(crate) wheel: TimingWheel,
    pub(crate) store: MemoryStore,
    pub(crate) clock: SetClock,
    pub(crate) book: Book,
}

impl Rig {
    pub(crate) fn new() -> Self {
        let clock = SetClock::starting_at(start());
        Self { wheel: TimingWheel::new(), store: MemoryStore::new(), clock, book: Book::default() }
    }

    pub(crate) fn builder(&self) -> Builder {
        let (book, clock) = (self.book.clone(), self.clock.clone());
        let wheel = self.wheel.clone();
        let handler = move |note: Note, run: Run| {
            let (book, clock, wheel) = (book.clone(), clock.clone(), wheel.clone());
            async move { handle(note, run, &book, &clock, &wheel).await }
        };
        let backoff = Backoff::fixed(secs(10)).jitter(0.0).tries(3);
        Durable::builder(&self.wheel, self.store.clone())
            .clock(self.clock.clone())
            .on(handler)
            .retry::<Note>(backoff)
    }

    pub(crate) async fn start(&self) -> Durable {
        self.builder().start().await.unwrap()
    }

    pub(crate) async fn sleep(&self, seconds: f64) {
        self.wheel.sleep(Duration::from_secs_f64(seconds)).await;
    }
}

async fn handle(note: Note, run: Run, book: &Book, clock: &SetClock, wheel: &TimingWheel) -> HandlerResult {
    use timingwheel_durable::Clock;
    book.write(&note.text, run.clone(), clock.now());
    if note.takes > 0 {
        wheel.sleep(secs(note.takes)).await;
        book.write(&format!("{} ended", note.text), run.clone(), clock.now());
    }
    if run.attempt <= note.fails {
        return Err(format!("attempt {} failed", run.attempt).into());
    }
    Ok(Answer::Done)
}
