//! Delay queues: tokio-util's, and one on our wheel's core.

use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use timingwheel::TimingWheel;
use timingwheel::wheel::Key;
use tokio::task::coop::unconstrained;
use tokio_util::time::{DelayQueue, delay_queue};

use super::host::{Host, ours};
use super::wheel_queue::WheelQueue;
use crate::support::{Comparison, Findings, Scale, Table, compare};

const OPERATIONS: usize = 100_000;
const PENDING: usize = 100_000;
/// All that is to be popped is due by then.
const SOON: Duration = Duration::from_millis(50);

/// What both can do.
trait Queue: Send + 'static {
    type Key: Send + 'static;

    fn new(wheel: &TimingWheel) -> Self;
    fn insert(&mut self, value: u32, delay: Duration) -> Self::Key;
    /// The value that was under the key.
    fn remove(&mut self, key: &Self::Key) -> u32;
    fn reset(&mut self, key: &Self::Key, delay: Duration);
    fn poll_pop(&mut self, cx: &mut Context<'_>) -> Poll<Option<u32>>;
}

impl Queue for WheelQueue {
    type Key = Key;

    fn new(wheel: &TimingWheel) -> Self {
        Self::new(wheel.clone())
    }

    fn insert(&mut self, value: u32, delay: Duration) -> Key {
        self.insert(value, delay)
    }

    fn remove(&mut self, key: &Key) -> u32 {
        self.remove(*key).expect("it is pending")
    }

    fn reset(&mut self, key: &Key, delay: Duration) {
        assert!(self.reset(*key, delay), "it is pending");
    }

    fn poll_pop(&mut self, cx: &mut Context<'_>) -> Poll<Option<u32>> {
        self.poll_expired(cx)
    }
}

impl Queue for DelayQueue<u32> {
    type Key = delay_queue::Key;

    fn new(_wheel: &TimingWheel) -> Self {
        Self::new()
    }

    fn insert(&mut self, value: u32, delay: Duration) -> Self::Key {
        self.insert(value, delay)
    }

    fn remove(&mut self, key: &Self::Key) -> u32 {
        self.remove(key).into_inner()
    }

    fn reset(&mut self, key: &Self::Key, delay: Duration) {
        self.reset(key, delay);
    }

    fn poll_pop(&mut self, cx: &mut Context<'_>) -> Poll<Option<u32>> {
        self.poll_expired(cx).map(|expired| expired.map(delay_queue::Expired::into_inner))
    }
}

/// A queue with many pending entries, of which the number is the value.
struct Filled<Q: Queue> {
    queue: Q,
    keys: Vec<Q::Key>,
}

impl<Q: Queue> Filled<Q> {
    fn new(host: &Host<TimingWheel>, pending: usize) -> Self {
        let (filled, _) = host.in_task(move |wheel, cx| {
            let mut queue = Q::new(wheel);
            let keys = (0..value(pending)).map(|value| queue.insert(value, delay())).collect();
            assert!(queue.poll_pop(cx).is_pending(), "nothing is due");
            Self { queue, keys }
        });
        filled
    }

    /// The time that `work` takes in a task, for every entry that a random choice gives it.
    fn repeat(
        &mut self,
        host: &Host<TimingWheel>,
        operations: usize,
        work: fn(&mut Q, &mut Q::Key, u32),
    ) -> Duration {
        // Moved into the task and back, as a task borrows nothing.
        let mut keys = std::mem::take(&mut self.keys);
        let mut queue = std::mem::replace(&mut self.queue, Q::new(&host.timer));
        let ((queue, keys), spent) = host.in_task(move |_, _| {
            for _ in 0..operations {
                let chosen = fastrand::usize(..keys.len());
                work(&mut queue, &mut keys[chosen], value(chosen));
            }
            (queue, keys)
        });
        *self = Self { queue, keys };
        spent.wall
    }
}

fn value(number: usize) -> u32 {
    u32::try_from(number).expect("few enough")
}

fn delay() -> Duration {
    Duration::from_millis(fastrand::u64(100_000..1_000_000))
}

pub(super) fn run(scale: Scale) -> Findings {
    let (operations, pending) = (scale.of(OPERATIONS), scale.of(PENDING));
    let host = ours();
    let mut ours = Filled::<WheelQueue>::new(&host, pending);
    let mut theirs = Filled::<DelayQueue<u32>>::new(&host, pending);
    let comparisons = [
        compare(
            scale,
            "insert and remove one more",
            operations,
            || ours.repeat(&host, operations, come_and_go),
            || theirs.repeat(&host, operations, come_and_go),
        ),
        compare(
            scale,
            "replace one at random",
            operations,
            || ours.repeat(&host, operations, replace),
            || theirs.repeat(&host, operations, replace),
        ),
        compare(
            scale,
            "reset one at random",
            operations,
            || ours.repeat(&host, operations, reset),
            || theirs.repeat(&host, operations, reset),
        ),
        compare(
            scale,
            "pop one of 100,000 that are due",
            pending,
            || pop_all::<WheelQueue>(&host, pending),
            || pop_all::<DelayQueue<u32>>(&host, pending),
        ),
    ];
    comparisons
        .iter()
        .map(Comparison::cells)
        .fold(
            Table::new(
                "Delay queues with 100,000 entries",
                ["operation", "on our wheel", "tokio-util", "ours / tokio-util"],
            ),
            Table::row,
        )
        .note(
            "Ours is a queue written for this benchmark on `timingwheel::wheel::Hierarchy`, with one sleep of a wheel \
             as its alarm.",
        )
        .into()
}

fn come_and_go<Q: Queue>(queue: &mut Q, _key: &mut Q::Key, value: u32) {
    let key = queue.insert(value, delay());
    assert_eq!(queue.remove(&key), value);
}

fn replace<Q: Queue>(queue: &mut Q, key: &mut Q::Key, value: u32) {
    assert_eq!(queue.remove(key), value);
    *key = queue.insert(value, delay());
}

fn reset<Q: Queue>(queue: &mut Q, key: &mut Q::Key, _value: u32) {
    queue.reset(key, delay());
}

/// Inserts, waits until all are due, and pops them all. Only popping is timed.
fn pop_all<Q: Queue>(host: &Host<TimingWheel>, entries: usize) -> Duration {
    let wheel = host.timer.clone();
    let task = host.runtime.spawn(unconstrained(async move {
        let mut queue = Q::new(&wheel);
        let soon = u64::try_from(SOON.as_micros()).expect("a short time");
        for number in 0..entries {
            queue.insert(value(number), Duration::from_micros(fastrand::u64(1..soon)));
        }
        // A tick more, as tokio's round up. Not by blocking: the runtime's clock has to go on too.
        tokio::time::sleep(SOON + Duration::from_millis(1)).await;
        let mut popped = vec![false; entries];
        let start = Instant::now();
        while let Some(value) = poll_fn(|cx| queue.poll_pop(cx)).await {
            popped[value as usize] = true;
        }
        let time = start.elapsed();
        assert!(popped.into_iter().all(|popped| popped), "every entry is popped");
        time
    }));
    host.runtime.block_on(task).expect("the work does not panic")
}
