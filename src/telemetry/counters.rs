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
    of_turns: Mutex<OfTurns>,
    /// Relaxed, as are all counts here, because they guard no other memory.
    turns: AtomicU64,
    refused: AtomicU64,
    stalls: AtomicU64,
    wakers_panicked: AtomicU64,
}

/// The histograms of turns. A lock that only turns and readers take guards them, so a turn needs no locked instruction for
/// each timer.
#[derive(Debug, Default)]
pub(crate) struct OfTurns {
    pub(crate) lateness: Histogram,
    pub(crate) lock_holds: Histogram,
}

impl Counters {
    pub(crate) fn of(name: String) -> Self {
        Self {
            name,
            events: Events::new(),
            of_turns: Mutex::new(OfTurns::default()),
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

    /// For a turn, before it takes a shard's lock. Reading these takes a microsecond, for which only the turn waits, and
    /// no thread that arms or cancels.
    pub(crate) fn of_turns(&self) -> MutexGuard<'_, OfTurns> {
        lock(&self.of_turns)
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

    pub(crate) fn copy_to(&self, stats: &mut Stats) {
        {
            let of_turns = lock(&self.of_turns);
            stats.lateness.copy_from(&of_turns.lateness);
            stats.lock_holds.copy_from(&of_turns.lock_holds);
        }
        stats.turns = self.turns.load(Ordering::Relaxed);
        stats.refused = self.refused.load(Ordering::Relaxed);
        stats.stalls = self.stalls.load(Ordering::Relaxed);
        stats.wakers_panicked = self.wakers_panicked.load(Ordering::Relaxed);
    }
}
