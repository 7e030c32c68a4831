//! Ten thousand items through an adapter allocate nothing, once the wheel is warm, except the vectors of chunks.

use std::hint::black_box;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures::stream::{self, Stream};
use timingwheel::TimingWheel;
use timingwheel::stream::StreamTimeExt;

use super::allocations;

const ITEMS: u32 = 10_000;
const LIMIT: Duration = Duration::from_secs(3_600);

/// Has its items at every other poll, and is pending in between.
fn items() -> impl Stream<Item = u32> {
    let mut polls = 0;
    stream::poll_fn(move |_| {
        polls += 1;
        if polls % 2 == 0 { Poll::Ready(Some(polls)) } else { Poll::Pending }
    })
}

/// Takes the items, each after a poll that is pending and so needs the timer.
fn take(mut stream: Pin<&mut impl Stream>) {
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 0..ITEMS {
        assert!(stream.as_mut().poll_next(&mut cx).is_pending());
        assert!(matches!(stream.as_mut().poll_next(&mut cx), Poll::Ready(Some(_))));
    }
}

#[track_caller]
fn assert_takes_one_timer_and_no_memory<S: Stream>(wheel: &TimingWheel, adapter: impl Fn() -> S) {
    // Makes the wheel warm.
    take(pin!(adapter()));
    let armed = wheel.stats().armed;
    let mut stream = pin!(adapter());
    assert_eq!(allocations(|| take(stream.as_mut())), 0);
    assert_eq!(wheel.stats().armed - armed, 1);
}

#[test]
fn ten_thousand_items_take_one_timer_and_no_memory() {
    if super::ran_alone(ten_thousand_items_take_one_timer_and_no_memory) {
        return;
    }
    assert_eq!(allocations(|| drop(black_box(Box::new(1)))), 1, "allocations are not counted");
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let _context = runtime.enter();
    let wheel = TimingWheel::new();
    assert_takes_one_timer_and_no_memory(&wheel, || items().timeout_on(&wheel, LIMIT));
    assert_takes_one_timer_and_no_memory(&wheel, || items().idle_timeout_on(&wheel, LIMIT));
    assert_takes_one_timer_and_no_memory(&wheel, || {
        items().timeout_repeating_on(wheel.interval_at(tokio::time::Instant::now() + LIMIT, LIMIT))
    });
}
