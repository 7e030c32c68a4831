//! `throttle_on`: each item at a distance from the one before. On tokio's paused clock.

mod streams;

use std::pin::{Pin, pin};
use std::time::Duration;

use futures::stream::{self, Stream, StreamExt};
use streams::*;
use timingwheel::TimingWheel;
use timingwheel::stream::StreamTimeExt;
use tokio::time::{Instant, advance};
use tokio_test::{assert_pending, assert_ready_eq, task};

#[tokio::test(start_paused = true)]
async fn the_first_item_does_not_wait_and_each_other_one_comes_after_the_distance() {
    for distance in [ms(1), ms(64), ms(5_000), DAY] {
        let start = Instant::now();
        let mut items = stream::iter(0..100).throttle_on(&TimingWheel::new(), distance);
        for n in 0..100 {
            assert_eq!(items.next().await, Some(n));
            assert_eq!(start.elapsed(), distance * n);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_distance_is_not_rounded() {
    let (distance, nanosecond) = (Duration::from_nanos(1_234_567), Duration::from_nanos(1));
    // A clock that stands between two milliseconds fires nothing, but a timer first polled then sees it.
    let wheel = TimingWheel::new();
    let [mut before, mut after] =
        [(); 2].map(|()| task::spawn(stream::iter(0..3).throttle_on(&wheel, distance)));
    assert_ready_eq!(before.poll_next(), Some(0));
    assert_ready_eq!(after.poll_next(), Some(0));
    advance(distance - nanosecond).await;
    assert_pending!(before.poll_next());
    advance(nanosecond).await;
    assert_ready_eq!(after.poll_next(), Some(1));
}

#[tokio::test(start_paused = true)]
async fn the_distance_counts_from_when_an_item_was_taken() {
    let start = Instant::now();
    let (sender, receiver) = channel();
    let mut items = receiver.throttle_on(&TimingWheel::new(), ms(10));
    for item in 0..3 {
        sender.unbounded_send(item).unwrap();
    }
    advance(ms(5)).await;
    for (item, at, then) in [(0, 5, 25), (1, 30, 3), (2, 40, 0)] {
        assert_eq!(items.next().await, Some(item));
        assert_eq!(start.elapsed(), ms(at));
        advance(ms(then)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn until_the_distance_is_over_the_stream_within_is_not_polled() {
    let mut polls = 0;
    let counting = stream::poll_fn(|_| {
        polls += 1;
        std::task::Poll::Ready(Some(polls))
    });
    let mut items = task::spawn(counting.throttle_on(&TimingWheel::new(), ms(10)));
    assert_ready_eq!(items.poll_next(), Some(1));
    assert_pending!(items.poll_next());
    assert_pending!(items.poll_next());
    advance(ms(10)).await;
    assert_ready_eq!(items.poll_next(), Some(2));
}

#[tokio::test(start_paused = true)]
async fn a_distance_of_zero_lets_everything_through_and_never_touches_the_wheel() {
    let wheel = ended_wheel();
    let mut items = task::spawn(stream::iter(0..1_000).throttle_on(&wheel, Duration::ZERO));
    for n in 0..1_000 {
        // All in one go, so they spend no budget either.
        assert_ready_eq!(items.poll_next(), Some(n));
    }
    assert_eq!(wheel.stats().armed, 0);
}

#[tokio::test(start_paused = true)]
async fn a_distance_beyond_reach_is_never_too_short() {
    let mut items = task::spawn(stream::iter(0..2).throttle_on(&TimingWheel::new(), Duration::MAX));
    assert_ready_eq!(items.poll_next(), Some(0));
    advance(DAY * 36_525).await;
    assert_pending!(items.poll_next());
}

#[tokio::test(start_paused = true)]
async fn one_timer_is_pending_at_a_time_and_none_after_it_has_fired() {
    let wheel = TimingWheel::new();
    let mut items = task::spawn(stream::iter(0..10_u32).throttle_on(&wheel, ms(10)));
    for n in 0..10 {
        assert_ready_eq!(items.poll_next(), Some(n));
        assert_pending!(items.poll_next());
        assert_eq!((wheel.pending(), wheel.stats().armed), (1, u64::from(n) + 1));
        advance(ms(10)).await;
        assert_eq!(wheel.pending(), 0);
    }
    assert_ready_eq!(items.poll_next(), None);
    assert_eq!(wheel.stats().fired, 10);
}

#[tokio::test(start_paused = true)]
#[should_panic = "the timing wheel has ended"]
async fn polling_panics_if_an_item_has_to_wait_and_the_wheel_has_ended() {
    let mut items = stream::iter(0..2).throttle_on(&ended_wheel(), SECOND);
    assert_eq!(items.next().await, Some(0));
    items.next().await;
}

#[tokio::test(start_paused = true)]
#[should_panic = "the timing wheel refused one more timer"]
async fn polling_panics_if_an_item_has_to_wait_and_there_is_no_place_for_a_timer() {
    let mut items = stream::iter(0..2).throttle_on(&full_wheel(), SECOND);
    assert_eq!(items.next().await, Some(0));
    items.next().await;
}

#[tokio::test(start_paused = true)]
async fn no_item_is_lost_by_a_panic() {
    let mut items = Box::pin(stream::iter(0..2).throttle_on(&ended_wheel(), SECOND));
    let panicked = tokio::spawn(async move {
        assert_eq!(items.next().await, Some(0));
        let mut polled = futures::FutureExt::catch_unwind(std::panic::AssertUnwindSafe(items.next()));
        assert!((&mut polled).await.is_err());
        drop(polled);
        *Pin::into_inner(items)
    });
    let items = panicked.await.unwrap();
    assert_eq!(items.into_inner().collect::<Vec<_>>().await, [1]);
}

#[tokio::test(start_paused = true)]
async fn an_item_waits_when_the_budget_was_spent_before_it_and_is_not_lost() {
    let mut items = stream::iter(0..2).throttle_on(&TimingWheel::new(), ms(1));
    assert_eq!(items.next().await, Some(0));
    advance(ms(1)).await;
    assert_waits_without_budget(&mut items).await;
    assert_ready_eq!(task::spawn(&mut items).poll_next(), Some(1));
}

#[tokio::test(start_paused = true)]
async fn it_is_fused_and_sized_as_the_stream_within() {
    let wheel = TimingWheel::new();
    let items = stream::iter(0..3).throttle_on(&wheel, SECOND);
    assert_eq!(items.size_hint(), (3, Some(3)));
    assert_ends(ends_once().fuse().throttle_on(&wheel, SECOND));

    // It may go on after a `None`, if that within does.
    let mut polls = 0;
    let pauses = stream::poll_fn(|_| {
        polls += 1;
        std::task::Poll::Ready(Some(polls).filter(|n| n % 2 == 0))
    });
    let mut pauses = pin!(pauses.throttle_on(&wheel, SECOND));
    let start = Instant::now();
    for next in [None, Some(2), None, Some(4)] {
        assert_eq!(pauses.next().await, next);
    }
    assert_eq!(start.elapsed(), SECOND);
}

#[tokio::test(start_paused = true)]
async fn the_stream_within_can_be_looked_at_changed_and_taken_out() {
    let mut items = stream::iter(vec![1, 2, 3]).throttle_on(&TimingWheel::new(), SECOND);
    assert_send_sync_unpin_debug(&items);
    assert_eq!(items.get_ref().size_hint(), (3, Some(3)));
    assert_eq!(items.get_mut().next().await, Some(1));
    assert_eq!(Pin::new(&mut items).get_pin_mut().next().await, Some(2));
    assert_eq!(items.into_inner().collect::<Vec<_>>().await, [3]);
}
