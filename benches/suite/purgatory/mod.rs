//! Operations under a key each, beside what a user of tokio writes by hand; and the same by hand with the wheel's timeouts.

mod crowd;
mod senders;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use timingwheel::TimingWheel;
use timingwheel_purgatory::Purgatory;
use tokio::runtime::{Builder, Runtime};

use crate::support::{Case, Comparison, Findings, Scale, Table, compare, time};
use crowd::{Crowd, Waiting, limit, with_waker};
use senders::{Senders, Tokio};

pub(crate) fn cases() -> Vec<Case> {
    vec![Case::new(
        "purgatory_by_key",
        "What does it cost to watch an operation under a key and to complete it, beside a map of senders?",
        run,
    )]
}

/// How many others wait, and what the time may be beside the rival's.
const ROWS: [(usize, [&str; 2], f64); 2] = [
    (1_000, ["one more, 1,000 waiting", "one of 1,000 replaced"], 0.8),
    (200_000, ["one more, 200,000 waiting", "one of 200,000 replaced"], 0.9),
];
const OPERATIONS: usize = 200_000;

struct Ours {
    purgatory: Purgatory<u64>,
    /// The key whose operation may complete.
    come: Arc<AtomicU64>,
}

impl Waiting for Ours {
    type Future = timingwheel_purgatory::Watch<u64>;

    fn watch(&mut self, key: u64) -> Self::Future {
        let come = self.come.clone();
        self.purgatory
            .watch([key], limit(key), move || Some(come.load(Ordering::Relaxed)).filter(|&come| come == key))
    }

    fn complete(&mut self, key: u64) {
        self.come.store(key, Ordering::Relaxed);
        assert_eq!(self.purgatory.check(&key), 1);
    }

    fn is_complete(output: <Self::Future as Future>::Output) -> bool {
        output.is_ok()
    }

    fn len(&self) -> usize {
        self.purgatory.delayed()
    }
}

/// Two rows: what `ours` makes of a wheel, beside the map of senders with tokio's timeouts.
fn rows<W: Waiting>(
    scale: Scale,
    runtime: &Runtime,
    ours: fn(&TimingWheel) -> W,
    (count, names, target): (usize, [&'static str; 2], f64),
) -> [Vec<String>; 2] {
    let (count, operations) = (scale.of(count), scale.of(OPERATIONS));
    let wheel = runtime.block_on(async { TimingWheel::new() });
    let mut ours = with_waker(runtime, |cx| Crowd::new(ours(&wheel), count, cx));
    let mut by_hand = with_waker(runtime, |cx| Crowd::new(Senders::new(Tokio), count, cx));
    let [one_more, replace] = names;
    let one_more = compare(
        scale,
        one_more,
        operations,
        || with_waker(runtime, |cx| time(|| ours.one_more(operations, cx))),
        || with_waker(runtime, |cx| time(|| by_hand.one_more(operations, cx))),
    );
    let replace = compare(
        scale,
        replace,
        operations,
        || with_waker(runtime, |cx| time(|| ours.replace(operations, cx))),
        || with_waker(runtime, |cx| time(|| by_hand.replace(operations, cx))),
    );
    assert_eq!([ours.waiting.len(), by_hand.waiting.len()], [count; 2]);
    let stats = wheel.stats();
    assert!(stats.armed >= (count + 2 * operations) as u64, "some timers did not reach the wheel: {stats:?}");
    // Within the runtime, because tokio's timers are dropped there.
    runtime.block_on(async { drop((ours, by_hand)) });
    let cells = |found: Comparison| [found.cells(), vec![found.target(Some(target))]].concat();
    [one_more, replace].map(cells)
}

fn table<W: Waiting>(
    scale: Scale,
    title: &str,
    name: &str,
    note: &str,
    ours: fn(&TimingWheel) -> W,
) -> Table {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    ROWS.into_iter()
        .flat_map(|row| rows(scale, &runtime, ours, row))
        .fold(
            Table::new(title, ["watch, check, done", name, "by hand", "ours / by hand", "target"]),
            Table::row,
        )
        .ratio("ours / by hand", name, "by hand")
        .note(note)
}

fn run(scale: Scale) -> Findings {
    let purgatory = table(
        scale,
        "A purgatory beside a map of senders",
        "timingwheel_purgatory",
        "Each operation has a key of its own. Replaced is one at random. It is watched, polled, and completed by a check of its key; then it is \
         polled again. By hand that is a mutex round std's map of oneshot senders, with tokio's timeout round each \
         receiver.",
        |wheel| Ours { purgatory: Purgatory::new(wheel), come: Arc::new(AtomicU64::new(u64::MAX)) },
    );
    let senders = table(
        scale,
        "A map of senders, with the wheel's timeouts and with tokio's",
        "timingwheel's timeouts",
        "Where each operation has one key and is done when its value is there, a map of senders is enough, and faster \
         than a purgatory, which tries conditions under any number of keys.",
        |wheel| Senders::new(wheel.clone()),
    );
    Findings { tables: vec![purgatory.about("purgatory"), senders.about("map of senders")] }
}
