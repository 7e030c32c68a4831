//! The counters of a wheel: turns, refusals, stalls, panics. Shards have counters of their own.

use crate::platform::sync::{AtomicU64, Mutex, MutexGuard, Ordering, lock};
use crate::telemetry::events::Events;
use crate::telemetry::histogram::Histogram;
use crate::telemetry::stats::Stats;

#[derive(Debug)]
pub(crate) struct Counters {
    /// The wheel's name.
    pub(crate) name: String,
    pub(crate) events: Events,
    /// A lock that only turns and readers take guards it, so a turn needs no locked instruction for each timer.
    lateness: Mutex<Histogram>,
    /// Relaxed, as are all counts here, because they guard no other memory.
    turns: AtomicU64,
    refused: AtomicU64,
    stalls: AtomicU64,
    wakers_panicked: AtomicU64,
}

impl Counters {
    pub(crate) fn of(name: String) -> Self {
        Self {
            name,
            events: Events::new(),
            lateness: Mutex::default(),
            turns: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            stalls: AtomicU64::new(0),
            wakers_panicked: AtomicU64::new(0),
        }
    }

    /// All shards have ended. Only the first call counts.
    pub(crate) fn ended(&self) {
        self.send_events();
        self.events.ended(&self.name);
    }

    /// For a turn, before it takes a shard's lock. Reading it takes a microsecond, for which only the turn waits, and
    /// no thread that arms or cancels.
    pub(crate) fn lateness(&self) -> MutexGuard<'_, Histogram> {
        lock(&self.lateness)
    }

    /// A turn begins.
    pub(crate) fn turned(&self) {
        self.turns.fetch_add(1, Ordering::Relaxed);
    }

    /// A timer was refused because the wheel is full. Returns whether the driver has to be woken to report it.
    pub(crate) fn refused(&self) -> bool {
        self.refused.fetch_add(1, Ordering::Relaxed);
        self.events.refused()
    }

    /// For the driver, while it holds no lock: reports what others have noted.
    pub(crate) fn send_events(&self) {
        self.events.tell_noted(&self.name, || self.refused.load(Ordering::Relaxed));
    }

    /// A turn is so late that the whole runtime may have stalled.
    #[cold]
    pub(crate) fn stalled(&self) {
        let before = self.stalls.fetch_add(1, Ordering::Relaxed);
        self.events.stalled(&self.name, before + 1);
    }

    /// A waker panicked when its timer fired, or when the wheel ended.
    #[cold]
    pub(crate) fn waker_panicked(&self) {
        let before = self.wakers_panicked.fetch_add(1, Ordering::Relaxed);
        self.events.waker_panicked(&self.name, before + 1);
    }

    /// Code that a library runs for a timer has panicked, and the library reports that.
    #[cold]
    pub(crate) fn note_panic(&self) {
        self.wakers_panicked.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn copy_to(&self, stats: &mut Stats) {
        stats.lateness.copy_from(&lock(&self.lateness));
        stats.turns = self.turns.load(Ordering::Relaxed);
        stats.refused = self.refused.load(Ordering::Relaxed);
        stats.stalls = self.stalls.load(Ordering::Relaxed);
        stats.wakers_panicked = self.wakers_panicked.load(Ordering::Relaxed);
    }
}
