//! Timers that go from one thread to another, and threads that hold up others.

use std::pin::Pin;
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use timingwheel::{Sleep, TimingWheel};
use tokio::time::Instant;

use super::{Running, block_on, ms, not_early};

#[test]
fn after_a_storm_on_many_threads_the_counts_add_up_and_nothing_was_early() {
    for workers in [0, 2] {
        let ours = Running::new(workers);
        let _guard = ours.0.enter();
        let wheel = TimingWheel::builder().tick(Duration::from_micros(50)).shards(3).build().unwrap();
        let end = Instant::now() + ms(300);
        let left: Vec<_> = thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| storm(&wheel, end))).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        let stats = wheel.stats();
        assert!(stats.armed > 1_000 && stats.fired > 100 && stats.cancelled > 100, "{stats:?}");
        // Timers that still have a deadline may fire meanwhile, but none is counted twice or lost.
        assert_eq!(stats.armed, stats.fired + stats.cancelled + stats.pending as u64, "{stats:?}");
        for sleep in left {
            block_on(not_early(sleep));
        }
        let stats = wheel.stats();
        assert_eq!((stats.pending, stats.armed), (0, stats.fired + stats.cancelled), "{stats:?}");
    }
}

/// Arms, polls, moves and drops timers at random, and returns what is left.
fn storm(wheel: &TimingWheel, end: Instant) -> Vec<Sleep> {
    let micros = || Duration::from_micros(fastrand::u64(0..20_000));
    let mut sleeps: Vec<Sleep> = Vec::new();
    let mut cx = Context::from_waker(Waker::noop());
    while Instant::now() < end {
        if sleeps.len() < 500 {
            sleeps.push(wheel.sleep(micros()));
        }
        let at = fastrand::usize(..sleeps.len());
        match fastrand::u8(..8) {
            0 => drop(sleeps.swap_remove(at)),
            1 => Pin::new(&mut sleeps[at]).reset(Instant::now() + micros()),
            2 => Pin::new(&mut sleeps[at]).reset(Instant::now()),
            _ => {
                let elapsed = sleeps[at].is_elapsed();
                if sleeps[at].poll_unconstrained(&mut cx).is_ready() {
                    assert!(Instant::now() >= sleeps[at].deadline());
                    drop(sleeps.swap_remove(at));
                } else {
                    assert!(!elapsed);
                }
            }
        }
    }
    sleeps
}
