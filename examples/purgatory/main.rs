//! How do I answer a request when others have done their part, or when its time is up?
//!
//! `cargo run --release -p timingwheel-examples --example purgatory`, or with `-- --help` for the settings and
//! `-- --short` for a quick look.
//!
//! A broker in this process has partitions, each with a log and two followers that copy it. A producer writes to some
//! partitions, and gets its answer when all followers have copied the write. So a write waits in a `Purgatory`, under the
//! keys of its partitions, and each fetch of a follower checks the key of the partition that it has copied.
//!
//! `Broker` is all that a program needs; the rest is a load. For half of the time one follower stands still in some
//! partitions, and writes to these expire. Meanwhile one of these partitions moves to another broker, which cancels its
//! waiting writes. Broker, producers and followers keep books. If these do not agree (a follower lacks an acknowledged
//! write, one expired early or without need, one was never answered, one is left in the purgatory) the program says so and
//! exits with 1.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use timingwheel_purgatory::{Purgatory, WatchError};

const FOLLOWERS: usize = 2;

/// How many records the leader has, and how many of them each follower.
#[derive(Default)]
struct Partition {
    log_end: AtomicU64,
    copied: [AtomicU64; FOLLOWERS],
}

struct Broker {
    partitions: Vec<Partition>,
    purgatory: Purgatory<usize>,
    timeout: Duration,
}

impl Broker {
    /// Writes a record to each of `partitions`, and waits until all followers have them.
    async fn write(self: &Arc<Self>, partitions: Vec<usize>) -> Result<Vec<(usize, u64)>, WatchError> {
        let append = |&partition: &usize| {
            (partition, self.partitions[partition].log_end.fetch_add(1, Ordering::AcqRel) + 1)
        };
        let written: Vec<_> = partitions.iter().map(append).collect();
        let (broker, records) = (self.clone(), written.clone());
        let has_copies = move || broker.has_copies(&records).then_some(());
        self.purgatory.watch(partitions, self.timeout, has_copies).await.map(|()| written)
    }

    /// Copies what is new in a partition. Returns how many writes that completed.
    fn fetch(&self, follower: usize, partition: usize) -> usize {
        let Partition { log_end, copied } = &self.partitions[partition];
        let end = log_end.load(Ordering::Acquire);
        if copied[follower].swap(end, Ordering::AcqRel) < end { self.purgatory.check(&partition) } else { 0 }
    }

    /// Whether all followers have what was written.
    fn has_copies(&self, written: &[(usize, u64)]) -> bool {
        let is_copied = |&(partition, offset): &(usize, u64)| {
            self.partitions[partition].copied.iter().all(|copied| copied.load(Ordering::Acquire) >= offset)
        };
        written.iter().all(is_copied)
    }
}

#[path = "../shared/ledger.rs"]
mod ledger;
#[path = "../shared/limits.rs"]
mod limits;
mod load;
#[path = "../shared/machine.rs"]
mod machine;

#[tokio::main]
async fn main() -> std::process::ExitCode {
    load::main().await
}
