//! `idle_timeout_on`: a gap that is too long ends the stream with one error. On tokio's paused clock.

mod streams;

use std::pin::{Pin, pin};
use std::time::Duration;

use futures::stream::{self, FusedStream, Stream, StreamExt};
use streams::*;
use timingwheel::stream::StreamTimeExt;
use timingwheel::{Elapsed, TimingWheel};
use tokio::time::{Instant, advance};
use tokio_test::{assert_pending, assert_ready_eq, task};

fn late() -> Option<Result<u32, Elapsed>> {
    Some(Err(Elapsed::default()))
}

#[tokio::test(start_paused = true)]
async fn what_is_ready_at_once_never_touches_the_wheel() {
    let wheel = TimingWheel::new();
    let items: Vec<_> = stream::iter(0..100).idle_timeout_on(&wheel, Duration::ZERO).collect().await;
    assert_eq!(items, (0..100).map(Ok).collect::<Vec<_>>());
    assert_eq!(wheel.stats().armed, 0);
}

#[tokio::test(start_paused = true)]
async fn a_gap_gives_one_error_exactly_at_its_limit_and_ends_the_stream() {
    for limit in [Duration::ZERO, ms(2), ms(64), ms(5_000), DAY] {
        let (sender, receiver) = channel();
        let mut items = task::spawn(receiver.idle_timeout_on(&TimingWheel::new(), limit));
        for item in 0..3 {
            advance(limit / 2).await;
            sender.unbounded_send(item).unwrap();
            assert_eq!(items.next().await, Some(Ok(item)));
        }
        let start = Instant::now();
        assert_eq!(items.deadline(), Some(start + limit));
        assert_eq!(items.next().await, late());
        assert_eq!((start.elapsed(), items.deadline()), (limit, None));
        sender.unbounded_send(4).unwrap();
        assert_stays_ended(items.into_inner());
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_gap_begins_with_the_call_not_with_the_first_poll() {
    let mut items = stream::pending::<u32>().idle_timeout_on(&TimingWheel::new(), ms(10));
    let start = Instant::now();
    advance(ms(7)).await;
    assert_eq!(items.next().await, late());
    assert_eq!(start.elapsed(), ms(10));
}

#[tokio::test(start_paused = true)]
async fn an_item_that_becomes_ready_together_with_the_deadline_wins() {
    let (sender, receiver) = channel();
    let mut items = task::spawn(receiver.idle_timeout_on(&TimingWheel::new(), ms(10)));
    assert_pending!(items.poll_next());
    advance(ms(10)).await;
    sender.unbounded_send(1).unwrap();
    assert_ready_eq!(items.poll_next(), Some(Ok(1)));
    assert_pending!(items.poll_next());
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_items_take_one_timer() {
    let wheel = TimingWheel::new();
    let (sender, receiver) = channel();
    let mut items = task::spawn(receiver.idle_timeout_on(&wheel, SECOND));
    for item in 0..10_000 {
        assert_pending!(items.poll_next());
        advance(ms(999)).await;
        sender.unbounded_send(item).unwrap();
        assert_ready_eq!(items.poll_next(), Some(Ok(item)));
    }
    assert_eq!((wheel.stats().armed, wheel.pending()), (1, 1));
    drop(items);
    assert_eq!((wheel.stats().cancelled, wheel.pending()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_limit_can_be_changed_from_the_next_item_on() {
    let (sender, receiver) = channel();
    let mut items = receiver.idle_timeout_on(&TimingWheel::new(), ms(10));
    let start = Instant::now();
    Pin::new(&mut items).set_limit(ms(30));
    assert_eq!((items.limit(), items.deadline()), (ms(30), Some(start + ms(10))));
    sender.unbounded_send(1).unwrap();
    assert_eq!(items.next().await, Some(Ok(1)));
    assert_eq!(items.next().await, late());
    assert_eq!(start.elapsed(), ms(30));
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_has_ended_by_its_error_can_be_given_more_time() {
    let start = Instant::now();
    let (sender, receiver) = channel();
    let mut items = receiver.idle_timeout_on(&TimingWheel::new(), ms(10));
    assert_eq!(items.next().await, late());
    sender.unbounded_send(1).unwrap();
    assert!(items.is_terminated());
    assert_eq!(items.next().await, None);

    Pin::new(&mut items).reset(start + ms(25));
    assert!(!items.is_terminated());
    assert_eq!(items.next().await, Some(Ok(1)));
    assert_eq!(start.elapsed(), ms(10));
    Pin::new(&mut items).reset(start + ms(40));
    assert_eq!(items.next().await, late());
    assert_eq!(start.elapsed(), ms(40));
    Pin::new(&mut items).reset_after(ms(5));
    assert_eq!(items.next().await, late());
    assert_eq!(start.elapsed(), ms(45));
}

#[tokio::test(start_paused = true)]
async fn a_stream_whose_inner_one_has_ended_stays_ended_when_it_is_moved() {
    let mut items = ends_once().idle_timeout_on(&TimingWheel::new(), ms(10));
    assert_eq!(items.next().await, None);
    Pin::new(&mut items).reset(Instant::now() + SECOND);
    assert_eq!(items.deadline(), None);
    assert_stays_ended(items);
}

#[tokio::test(start_paused = true)]
async fn a_limit_beyond_reach_is_never_too_short() {
    let wheel = TimingWheel::new();
    let mut items = pin!(stream::once(wheel.sleep(DAY * 36_525)).idle_timeout_on(&wheel, Duration::MAX));
    assert_eq!(items.next().await, Some(Ok(())));
    assert_eq!(items.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn without_a_timer_the_stream_ends_with_an_error_that_says_why() {
    for (wheel, says_why) in
        [(ended_wheel(), is_shutdown as fn(Elapsed) -> bool), (full_wheel(), is_at_capacity)]
    {
        let (sender, receiver) = channel();
        let mut items = receiver.idle_timeout_on(&wheel, SECOND);
        sender.unbounded_send(1).unwrap();
        assert_eq!(items.next().await, Some(Ok(1)));
        let error = items.next().await.unwrap().unwrap_err();
        assert!(says_why(error), "{error}");
        assert_stays_ended(items);
    }
}

#[tokio::test(start_paused = true)]
async fn a_wheel_that_ends_wakes_whoever_waits() {
    let wheel = TimingWheel::new();
    let mut items = task::spawn(stream::pending::<u32>().idle_timeout_on(&wheel, SECOND));
    assert_pending!(items.poll_next());
    wheel.shutdown();
    assert!(items.is_woken());
    assert!(is_shutdown(items.next().await.unwrap().unwrap_err()));
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_spends_the_whole_budget_at_each_poll_cannot_escape_its_limit() {
    let mut items = task::spawn(busy_stream().idle_timeout_on(&TimingWheel::new(), ms(10)));
    assert_pending!(items.poll_next());
    advance(ms(10)).await;
    assert_ready_eq!(items.poll_next(), late());
}

#[tokio::test(start_paused = true)]
async fn the_error_waits_when_the_budget_was_spent_before_it_and_is_not_lost() {
    let mut items = stream::pending::<u32>().idle_timeout_on(&TimingWheel::new(), Duration::ZERO);
    assert_waits_without_budget(&mut items).await;
    assert_ready_eq!(task::spawn(&mut items).poll_next(), late());
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_stream_is_the_end() {
    assert_ends(ends_once().idle_timeout_on(&TimingWheel::new(), SECOND));
}

#[tokio::test(start_paused = true)]
async fn the_size_hint_counts_the_error() {
    let wheel = TimingWheel::new();
    assert_eq!(stream::iter(0..3).idle_timeout_on(&wheel, SECOND).size_hint(), (1, Some(4)));
    assert_eq!(stream::iter(0..0).idle_timeout_on(&wheel, SECOND).size_hint(), (0, Some(1)));
    assert_eq!(busy_stream().idle_timeout_on(&wheel, SECOND).size_hint(), (0, None));
}

#[tokio::test(start_paused = true)]
async fn the_stream_within_can_be_looked_at_changed_and_taken_out() {
    let wheel = TimingWheel::new();
    let mut items = stream::iter(vec![1, 2, 3]).idle_timeout_on(&wheel, SECOND);
    assert_send_sync_unpin_debug(&items);
    assert_eq!(items.get_ref().size_hint(), (3, Some(3)));
    assert_eq!(items.get_mut().next().await, Some(1));
    assert_eq!(Pin::new(&mut items).get_pin_mut().next().await, Some(2));
    assert_eq!(items.into_inner().collect::<Vec<_>>().await, [3]);
}
