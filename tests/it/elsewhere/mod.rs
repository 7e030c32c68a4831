//! Dropped timers that leave their entry and their waker behind for a while.
//!
//! On a multi-thread runtime each worker has a shard. Three kinds of dropped timers stay: one that is dropped on another
//! thread than its shard's, an old one in a shard with very many, and the last one that was dropped where it was armed.
//! Each counts as dropped at once and does not fire. Its waker stays until the shard is turned, for a second at most, or
//! until a new timer takes the entry over, or until more than [`MOST_KEPT`] timers have been dropped so.

mod counts;
mod wakers;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Wake};
use std::thread;
use std::time::Duration;

use timingwheel::{Sleep, TimingWheel};
use tokio::runtime::Runtime;
use tokio::time::Instant;

use crate::{DAY, HANG_GUARD, elsewhere, ms};

/// As many as there may be. Threads take them in turn, and the tests start fewer, so that no two threads share one.
const SHARDS: usize = 1_024;

/// Wakers of timers dropped elsewhere, or old, that one shard keeps at the most.
const MOST_KEPT: usize = 13;

/// How long they stay at most. A test that is held up for so long finds them gone.
const STAY: Duration = Duration::from_secs(1);

/// Wakers of timers dropped where they were armed: one, and one that the driver is just letting go of.
const MOST_ABANDONED: usize = 2;

/// A wheel on a runtime with workers: two that the tests keep busy, and one for the driver.
fn on_workers(settings: timingwheel::Builder) -> (Runtime, TimingWheel) {
    let runtime = crate::runtime(3);
    let wheel = {
        let _context = runtime.enter();
        settings.build().unwrap()
    };
    (runtime, wheel)
}

fn sharded() -> timingwheel::Builder {
    TimingWheel::builder().shards(SHARDS)
}

/// Counts how many times it is woken. Panics when it is let go if it is told to and no panic is under way.
#[derive(Default)]
struct CountingWaker {
    woken: AtomicUsize,
    panics: bool,
}

impl Wake for CountingWaker {
    fn wake(self: Arc<Self>) {
        self.woken.fetch_add(1, Ordering::SeqCst);
    }
}

impl Drop for CountingWaker {
    fn drop(&mut self) {
        assert!(!self.panics || thread::panicking(), "in the waker's drop");
    }
}

type Wakers = Vec<Weak<CountingWaker>>;

/// How many of them the wheel has not let go of.
fn kept(wakers: &[Weak<CountingWaker>]) -> usize {
    wakers.iter().filter(|waker| waker.strong_count() > 0).count()
}

/// Polls a sleep for the first time, by which it is registered unless its deadline is found to have passed.
fn arm(wheel: &TimingWheel, duration: Duration, waker: Arc<CountingWaker>) -> Sleep {
    let mut sleep = wheel.sleep(duration);
    let poll = sleep.poll_unconstrained(&mut Context::from_waker(&waker.into()));
    assert!(duration < DAY || poll.is_pending());
    sleep
}

/// Registers sleeps, with wakers of which the wheel has the only reference.
fn arm_some(wheel: &TimingWheel, count: usize, panics: bool) -> (Vec<Sleep>, Wakers) {
    let arm_one = |_| {
        let waker = Arc::new(CountingWaker { woken: AtomicUsize::new(0), panics });
        let observed = Arc::downgrade(&waker);
        (arm(wheel, DAY, waker), observed)
    };
    (0..count).map(arm_one).unzip()
}

/// Drops so few timers elsewhere that the wheel still has all their wakers, which panic when it lets go of them.
fn drop_a_few_elsewhere(wheel: &TimingWheel) -> Wakers {
    let (sleeps, wakers) = arm_some(wheel, MOST_KEPT, true);
    elsewhere(|| drop(sleeps));
    assert_eq!(kept(&wakers), MOST_KEPT, "they were not dropped elsewhere");
    wakers
}

/// Drops a timer where it was armed, so that the wheel still has its waker, which panics when it is let go.
fn drop_one(wheel: &TimingWheel) -> Wakers {
    loop {
        let start = Instant::now();
        let (sleeps, wakers) = arm_some(wheel, 1, true);
        drop(sleeps);
        if kept(&wakers) == 1 {
            return wakers;
        }
        assert!(start.elapsed() >= STAY, "it was taken out");
    }
}

fn wait_until_let_go(wakers: &[Weak<CountingWaker>]) {
    let start = Instant::now();
    while kept(wakers) > 0 && start.elapsed() < HANG_GUARD {
        thread::sleep(ms(1));
    }
}
