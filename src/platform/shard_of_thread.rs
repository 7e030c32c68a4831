//! Which shard each thread uses.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of this thread's shard among `shards`. Each worker has a shard of its own if there are enough, so that
/// workers do not wait for each other.
#[inline]
pub(crate) fn shard_of_this_thread(shards: usize) -> usize {
    if shards == 1 {
        return 0;
    }
    let number = tokio::runtime::worker_index().unwrap_or_else(number_of_other_thread);
    // By default there are as many shards as workers, so most calls need no division, which takes long.
    if number < shards { number } else { number % shards }
}

/// A number for a thread that is not a worker. It is the same at each call.
fn number_of_other_thread() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static NUMBER: Cell<Option<usize>> = const { Cell::new(None) });
    NUMBER.with(|number| {
        number.get().unwrap_or_else(|| {
            // Relaxed: the numbers only spread threads over shards.
            let next = NEXT.fetch_add(1, Ordering::Relaxed);
            number.set(Some(next));
            next
        })
    })
}
