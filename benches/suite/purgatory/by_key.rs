//! Operations under a key each, beside what a user of tokio writes by hand: a mutex round a map of oneshot senders, and
//! tokio's timeout round each receiver.

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use timingwheel::{Purgatory, TimingWheel};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::task::coop::unconstrained;
use tokio::time::{Timeout, timeout};

use crate::support::{Comparison, Findings, Scale, Table, compare, time};

/// How many others wait, and what the time may be beside the rival's.
const ROWS: [(usize, [&str; 2], f64); 2] = [
    (1_000, ["one more, 1,000 waiting", "a random one of 1,000, for a new one"], 0.8),
    (200_000, ["one more, 200,000 waiting", "a random one of 200,000, for a new one"], 0.9),
];
const OPERATIONS: usize = 200_000;

/// Where operations wait for what comes under their keys.
trait Waiting {
    type Future: Future;

    fn watch(&mut self, key: u64) -> Self::Future;

    /// What the operation under this key waits for is there.
    fn complete(&mut self, key: u64);

    /// Whether that is what an operation came to, and not its deadline.
    fn is_complete(output: <Self::Future as Future>::Output) -> bool;

    fn len(&self) -> usize;
}

/// Long enough for none to expire, and no two alike.
fn limit(key: u64) -> Duration {
    Duration::from_millis(1_000_000 + key % 1_000_000)
}

struct Ours {
    purgatory: Purgatory<u64>,
    /// The key whose operation may complete.
    come: Arc<AtomicU64>,
}

impl Waiting for Ours {
    type Future = timingwheel::purgatory::Watch<u64>;

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

#[derive(Default)]
struct ByHand(Arc<Mutex<HashMap<u64, oneshot::Sender<u64>>>>);

impl Waiting for ByHand {
    type Future = Timeout<oneshot::Receiver<u64>>;

    fn watch(&mut self, key: u64) -> Self::Future {
        let (sender, receiver) = oneshot::channel();
        self.0.lock().expect("no panic under it").insert(key, sender);
        timeout(limit(key), receiver)
    }

    fn complete(&mut self, key: u64) {
        let sender = self.0.lock().expect("no panic under it").remove(&key);
        sender.expect("it waits").send(key).expect("somebody waits for it");
    }

    fn is_complete(output: <Self::Future as Future>::Output) -> bool {
        matches!(output, Ok(Ok(_)))
    }

    fn len(&self) -> usize {
        self.0.lock().expect("no panic under it").len()
    }
}

/// A key, and the future of its operation.
type Place<F> = (u64, Pin<Box<Option<F>>>);

/// Operations that wait. Their futures stand in places that are used again, so that no memory is given out for them.
struct Crowd<W: Waiting> {
    waiting: W,
    places: Vec<Place<W::Future>>,
    next: u64,
}

impl<W: Waiting> Crowd<W> {
    fn new(waiting: W, count: usize, cx: &mut Context<'_>) -> Self {
        let mut crowd = Self { waiting, places: Vec::with_capacity(count), next: 0 };
        for _ in 0..count {
            let (key, future) = crowd.watch();
            let mut place = Box::pin(Some(future));
            assert_pending(place.as_mut().as_pin_mut().expect("it was just set"), cx);
            crowd.places.push((key, place));
        }
        assert_eq!(crowd.waiting.len(), count);
        crowd
    }

    fn watch(&mut self) -> (u64, W::Future) {
        let key = self.next;
        self.next += 1;
        (key, self.waiting.watch(key))
    }

    fn one_more(&mut self, operations: usize, cx: &mut Context<'_>) {
        for _ in 0..operations {
            let (key, future) = self.watch();
            let mut future = pin!(future);
            assert_pending(future.as_mut(), cx);
            self.waiting.complete(key);
            assert_complete::<W>(future, cx);
        }
    }

    fn replace(&mut self, operations: usize, cx: &mut Context<'_>) {
        for _ in 0..operations {
            let (next, future) = self.watch();
            let nth = fastrand::usize(..self.places.len());
            let (key, place) = &mut self.places[nth];
            self.waiting.complete(*key);
            assert_complete::<W>(place.as_mut().as_pin_mut().expect("each waits"), cx);
            *key = next;
            place.set(Some(future));
            assert_pending(place.as_mut().as_pin_mut().expect("it was just set"), cx);
        }
    }
}

fn assert_pending(future: Pin<&mut impl Future>, cx: &mut Context<'_>) {
    assert!(future.poll(cx).is_pending(), "nothing has come yet");
}

fn assert_complete<W: Waiting>(future: Pin<&mut W::Future>, cx: &mut Context<'_>) {
    match future.poll(cx) {
        Poll::Ready(output) => assert!(W::is_complete(output)),
        Poll::Pending => panic!("it is complete"),
    }
}

fn rows(
    scale: Scale,
    runtime: &Runtime,
    (count, names, target): (usize, [&'static str; 2], f64),
) -> Vec<(Comparison, f64)> {
    let (count, operations) = (scale.of(count), scale.of(OPERATIONS));
    let wheel = runtime.block_on(async { TimingWheel::new() });
    let ours = Ours { purgatory: wheel.purgatory(), come: Arc::new(AtomicU64::new(u64::MAX)) };
    let mut ours = with_waker(runtime, |cx| Crowd::new(ours, count, cx));
    let mut by_hand = with_waker(runtime, |cx| Crowd::new(ByHand::default(), count, cx));
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
    vec![(one_more, target), (replace, target)]
}

/// Runs `work` within the runtime, with the waker of a task.
fn with_waker<T>(runtime: &Runtime, work: impl FnOnce(&mut Context<'_>) -> T) -> T {
    let mut work = Some(work);
    runtime.block_on(unconstrained(poll_fn(|cx| Poll::Ready(work.take().expect("polled once")(cx)))))
}

pub(super) fn run(scale: Scale) -> Findings {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    let header = ["watch, check, done", "timingwheel::Purgatory", "by hand", "ours / by hand", "target"];
    let table = ROWS
        .into_iter()
        .flat_map(|row| rows(scale, &runtime, row))
        .map(|(comparison, target)| [comparison.cells(), vec![comparison.target(Some(target))]].concat())
        .fold(Table::new("A purgatory beside a map of senders", header), Table::row);
    table
        .ratio("ours / by hand", "timingwheel::Purgatory", "by hand")
        .note(
            "Each operation has a key of its own. It is watched, polled, and completed by a check of its key; then it \
             is polled again. By hand that is a mutex round std's map of oneshot senders, with tokio's timeout round \
             each receiver.",
        )
        .into()
}
