//! The engine's parts without a runtime: the tests play the turner, the park and the clock.

mod alarm;
mod leftovers;
mod pace;
mod turns;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Wake, Waker};
use std::time::Duration;

use super::alarm::Alarm;
use super::shard::Shard;
use crate::platform::clock::Clock;
use crate::telemetry::counters::Counters;
use crate::wheel::{Hierarchy, Key, Nanos, Resolution};

/// A clock that cannot be paused.
pub(super) const CLOCK: Clock = Clock::that_pauses(false);

fn alarm(clock: Clock, resolution: Resolution) -> Arc<Alarm> {
    Arc::new(Alarm::new(clock, resolution, Counters::of("alone".into())))
}

/// Shard `number.0` of `number.1`.
pub(super) fn shard(number: (usize, usize), tick: Duration, slots: usize) -> Shard {
    let tick = Resolution::new(tick).expect("not zero");
    Shard::new(number, Hierarchy::new(tick, slots), CLOCK, alarm(CLOCK, tick), None)
}

/// Adds an entry.
pub(super) fn insert(shard: &Shard, now: Nanos, deadline: Nanos, waker: Waker) -> Key {
    shard.insert(now, deadline, waker).expect("not refused").expect("not due")
}

/// A waker that counts how many times it is woken.
#[derive(Debug, Default)]
pub(super) struct Counting(AtomicUsize);

impl Counting {
    pub(super) fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Wake for Counting {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A waker that takes its shard's lock as it is dropped.
struct Locks(Weak<Shard>);

impl Wake for Locks {
    fn wake(self: Arc<Self>) {}
}

impl Drop for Locks {
    fn drop(&mut self) {
        _ = self.0.upgrade().map(|shard| shard.pending());
    }
}
