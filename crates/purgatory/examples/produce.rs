//! When is a write answered? When a follower has it, or after a limit: two writes to a partition, of which one is copied.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use timingwheel::TimingWheel;
use timingwheel_purgatory::{Purgatory, Watch};

/// Waits until the follower has the log up to `offset`.
fn acknowledged(purgatory: &Purgatory<&'static str>, copied: &Arc<AtomicU64>, offset: u64) -> Watch<u64> {
    let copied = copied.clone();
    purgatory.watch(["orders-0"], Duration::from_millis(100), move || {
        Some(copied.load(Ordering::Relaxed)).filter(|&copied| copied >= offset)
    })
}

#[tokio::main]
async fn main() {
    let purgatory = Purgatory::new(&TimingWheel::new());
    let copied = Arc::new(AtomicU64::new(0));
    let [first, second] = [7, 12].map(|offset| acknowledged(&purgatory, &copied, offset));

    // The follower fetches.
    copied.store(9, Ordering::Relaxed);
    assert_eq!(purgatory.check("orders-0"), 1);

    println!("the first write: {:?}", first.await);
    println!("the second write: {:?}", second.await);
}
