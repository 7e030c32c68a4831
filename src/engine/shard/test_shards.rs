//! For tests: shards without a turner, whose part the test plays, and a waker that takes its shard's lock.

use std::sync::{Arc, Weak};
use std::task::Wake;
use std::time::Duration;

use super::Shard;
use crate::engine::alarm::Alarm;
use crate::platform::clock::Clock;
use crate::telemetry::counters::Counters;
use crate::wheel::{Hierarchy, Resolution};

/// Shard `number.0` of `number.1`.
pub(super) fn shard(number: (usize, usize), tick: Duration, slots: usize) -> Shard {
    let clock = Clock::start();
    let alarm = Arc::new(Alarm::new(clock, false, 1, Counters::of("alone".into())));
    let tick = Resolution::new(tick).expect("not zero");
    Shard::new(number, Hierarchy::new(tick, slots), clock, alarm, None)
}

/// The only shard of a wheel with ticks of a millisecond.
pub(super) fn lone_shard() -> Shard {
    shard((0, 1), Duration::from_millis(1), 64)
}

/// A waker that counts the pending timers as it is dropped. For that it takes the lock.
pub(super) struct Counts(pub(super) Weak<Shard>);

impl Wake for Counts {
    fn wake(self: Arc<Self>) {}
}

impl Drop for Counts {
    fn drop(&mut self) {
        _ = self.0.upgrade().map(|shard| shard.pending());
    }
}
