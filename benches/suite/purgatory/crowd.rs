//! Operations that wait under keys, and what is done with them: one more that comes and goes, or a random one for a new one.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::task::coop::unconstrained;

/// Where operations wait for what comes under their keys.
pub(super) trait Waiting {
    type Future: Future;

    fn watch(&mut self, key: u64) -> Self::Future;

    /// What the operation under this key waits for is there.
    fn complete(&mut self, key: u64);

    /// Whether that is what an operation came to, and not its deadline.
    fn is_complete(output: <Self::Future as Future>::Output) -> bool;

    fn len(&self) -> usize;
}

/// Long enough for none to expire, and no two alike.
pub(super) fn limit(key: u64) -> Duration {
    Duration::from_millis(1_000_000 + key % 1_000_000)
}

/// A key, and the future of its operation.
type Place<F> = (u64, Pin<Box<Option<F>>>);

/// Operations that wait. Their futures stand in places that are used again, so that no memory is given out for them.
pub(super) struct Crowd<W: Waiting> {
    pub(super) waiting: W,
    places: Vec<Place<W::Future>>,
    next: u64,
}

impl<W: Waiting> Crowd<W> {
    pub(super) fn new(waiting: W, count: usize, cx: &mut Context<'_>) -> Self {
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

    pub(super) fn one_more(&mut self, operations: usize, cx: &mut Context<'_>) {
        for _ in 0..operations {
            let (key, future) = self.watch();
            let mut future = pin!(future);
            assert_pending(future.as_mut(), cx);
            self.waiting.complete(key);
            assert_complete::<W>(future, cx);
        }
    }

    pub(super) fn replace(&mut self, operations: usize, cx: &mut Context<'_>) {
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

/// Runs `work` within the runtime, with the waker of a task.
pub(super) fn with_waker<T>(runtime: &Runtime, work: impl FnOnce(&mut Context<'_>) -> T) -> T {
    let mut work = Some(work);
    runtime.block_on(unconstrained(poll_fn(|cx| Poll::Ready(work.take().expect("polled once")(cx)))))
}
