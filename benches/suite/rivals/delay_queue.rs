//! Delay queues: ours and tokio-util's.

use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use timingwheel::TimingWheel;
use tokio::task::coop::unconstrained;

use super::host::{Host, ours};
use crate::support::{Comparison, Findings, Scale, Table, compare};

const OPERATIONS: usize = 100_000;
const SOME: usize = 100_000;
const MANY: usize = 1_000_000;
/// All that is to be popped is due by then.
const SOON: Duration = Duration::from_millis(50);
/// The least that a random delay is.
const FAR: Duration = Duration::from_secs(100);

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

type Ours = timingwheel::time::DelayQueue<u32>;
type Theirs = tokio_util::time::DelayQueue<u32>;

macro_rules! queue {
    ($queue:ty, $module:path, $new:expr) => {
        const _: () = {
            use $module as module;

            impl Queue for $queue {
                type Key = module::Key;

                fn new(wheel: &TimingWheel) -> Self {
                    $new(wheel)
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
                    self.poll_expired(cx).map(|expired| expired.map(module::Expired::into_inner))
                }
            }
        };
    };
}

queue!(Ours, timingwheel::time::delay_queue, TimingWheel::delay_queue);
queue!(Theirs, tokio_util::time::delay_queue, |_| Theirs::new());

/// A queue with many pending items, of which the number is the value.
struct Filled<Q: Queue> {
    queue: Q,
    keys: Vec<Q::Key>,
}

/// What is done with a random item, as the so-manieth of all that are done.
type Work<Q> = fn(&mut Q, &mut <Q as Queue>::Key, u32, u64);

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

    /// The time that `work` takes in a task, for every item that a random choice gives it.
    fn repeat(&mut self, host: &Host<TimingWheel>, operations: usize, work: Work<Q>) -> Duration {
        // Moved into the task and back, as a task borrows nothing.
        let mut keys = std::mem::take(&mut self.keys);
        let mut queue = std::mem::replace(&mut self.queue, Q::new(&host.timer));
        let ((queue, keys), spent) = host.in_task(move |_, _| {
            for number in 0..operations as u64 {
                let chosen = fastrand::usize(..keys.len());
                work(&mut queue, &mut keys[chosen], value(chosen), number);
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
    let operations = scale.of(OPERATIONS);
    let host = ours();
    let (mut some, mut of_theirs) =
        (Filled::<Ours>::new(&host, scale.of(SOME)), Filled::<Theirs>::new(&host, scale.of(SOME)));
    let mut side_by_side = |name, work: Work<Ours>, their_work: Work<Theirs>| {
        compare(
            scale,
            name,
            operations,
            || some.repeat(&host, operations, work),
            || of_theirs.repeat(&host, operations, their_work),
        )
    };
    let mut comparisons = vec![
        side_by_side("insert and remove one more", come_and_go, come_and_go),
        side_by_side("reset one to later", reset_later, reset_later),
        side_by_side("reset one to earlier", reset_earlier, reset_earlier),
        side_by_side("reset one to any time", reset, reset),
        side_by_side("replace one", replace, replace),
    ];
    let pending = scale.of(SOME);
    comparisons.push(compare(
        scale,
        "pop one of 100,000 that are due",
        pending,
        || pop_all::<Ours>(&host, pending),
        || pop_all::<Theirs>(&host, pending),
    ));
    drop((some, of_theirs));
    let (mut many, mut of_theirs) =
        (Filled::<Ours>::new(&host, scale.of(MANY)), Filled::<Theirs>::new(&host, scale.of(MANY)));
    comparisons.push(compare(
        scale,
        "replace one of a million",
        operations,
        || many.repeat(&host, operations, replace),
        || of_theirs.repeat(&host, operations, replace),
    ));
    comparisons
        .iter()
        .map(Comparison::cells)
        .fold(
            Table::new(
                "Delay queues with 100,000 items",
                ["operation, at random", "ours", "tokio-util", "ours / tokio-util"],
            )
            .about("delay queue")
            .ratio("ours / tokio-util", "ours", "tokio-util"),
            Table::row,
        )
        .note("Delays are from 100 s to 1,000 s. Each row leaves its queue as full as it was.")
        .into()
}

fn come_and_go<Q: Queue>(queue: &mut Q, _key: &mut Q::Key, value: u32, _number: u64) {
    let key = queue.insert(value, delay());
    assert_eq!(queue.remove(&key), value);
}

fn replace<Q: Queue>(queue: &mut Q, key: &mut Q::Key, value: u32, _number: u64) {
    assert_eq!(queue.remove(key), value);
    *key = queue.insert(value, delay());
}

fn reset<Q: Queue>(queue: &mut Q, key: &mut Q::Key, _value: u32, _number: u64) {
    queue.reset(key, delay());
}

/// To later than all before.
fn reset_later<Q: Queue>(queue: &mut Q, key: &mut Q::Key, _value: u32, number: u64) {
    queue.reset(key, 20 * FAR + Duration::from_millis(number));
}

/// To earlier than all before, as far as a hundred seconds reach.
fn reset_earlier<Q: Queue>(queue: &mut Q, key: &mut Q::Key, _value: u32, number: u64) {
    queue.reset(key, FAR - Duration::from_micros(number));
}

/// Inserts, waits until all are due, and pops them all. Only popping is timed.
fn pop_all<Q: Queue>(host: &Host<TimingWheel>, items: usize) -> Duration {
    let wheel = host.timer.clone();
    let task = host.runtime.spawn(unconstrained(async move {
        let mut queue = Q::new(&wheel);
        let soon = u64::try_from(SOON.as_micros()).expect("a short time");
        for number in 0..items {
            queue.insert(value(number), Duration::from_micros(fastrand::u64(1..soon)));
        }
        // A tick more, as tokio's round up. Not by blocking: the runtime's clock has to go on too.
        tokio::time::sleep(SOON + Duration::from_millis(1)).await;
        let mut popped = vec![false; items];
        let start = Instant::now();
        while let Some(value) = poll_fn(|cx| queue.poll_pop(cx)).await {
            popped[value as usize] = true;
        }
        let time = start.elapsed();
        assert!(popped.into_iter().all(|popped| popped), "every item is popped");
        time
    }));
    host.runtime.block_on(task).expect("the work does not panic")
}
