//! Models of the entries that dropped timers leave: threads reuse them while the turner fires timers.

mod batch;
mod spare;

use std::sync::Arc;
use std::task::Waker;

use super::{CountingWaker, FULL_BATCH, at, turn};
use crate::engine::shard::Shard;
use crate::platform::wakers::WakerId;
use crate::telemetry::stats::Stats;
use crate::wheel::{Key, Nanos};

/// A task that arms timers and drops them.
struct Task {
    shard: Arc<Shard>,
    counter: Arc<CountingWaker>,
    waker: Waker,
}

impl Task {
    fn new(shard: &Arc<Shard>) -> Self {
        let counter = CountingWaker::new();
        Self { shard: shard.clone(), waker: counter.clone().into(), counter }
    }

    fn id(&self) -> WakerId {
        WakerId::of(&self.waker)
    }

    fn arm(&self, deadline: Nanos) -> Key {
        let registered = self.shard.insert(at(0), deadline, self.waker.clone());
        registered.expect("not refused").expect("not due")
    }

    fn reuse_own(&self, deadline: Nanos) -> Option<Key> {
        self.shard.reuse_own(at(0), deadline, self.id())
    }

    fn discard(&self, key: Key, deadline: Nanos) {
        self.shard.discard(key, deadline, Some(self.id()));
    }

    /// Whether no entry has its waker any more.
    fn has_no_entry(&self) -> bool {
        Arc::strong_count(&self.counter) == 2
    }
}

fn stats(shard: &Shard) -> Stats {
    let mut stats = Stats::default();
    shard.add_to(&mut stats);
    stats
}

/// Turns the shard as the turner does when it comes after a second, and asserts that no entry keeps a waker after that.
/// If a task's waker is still in an entry before, the turner must have been asked to come.
fn clear(shard: &Shard, tasks: &[&Task]) {
    assert!(
        tasks.iter().all(|task| task.has_no_entry()) || shard.next_turn() < at(1),
        "the turner does not come"
    );
    turn(shard, at(1), FULL_BATCH);
    assert!(tasks.iter().all(|task| task.has_no_entry()), "a waker is kept");
}
