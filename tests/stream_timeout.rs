//! `timeout_on`: an error for each gap that is too long, and the stream goes on. On tokio's paused clock.

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
    let items: Vec<_> = stream::iter(0..100).timeout_on(&wheel, Duration::ZERO).collect().await;
    assert_eq!(items, (0..100).map(Ok).collect::<Vec<_>>());
    assert_eq!(wheel.stats().armed, 0);
}

#[tokio::test(start_paused = true)]
async fn a_gap_gives_one_error_exactly_at_its_limit_and_the_stream_goes_on() {
    for limit in [ms(1), ms(64), ms(5_000), DAY] {
        let wheel = TimingWheel::new();
        let (sender, receiver) = channel();
        let mut items = receiver.timeout_on(&wheel, limit);
        for item in 0..3 {
            let start = Instant::now();
            assert_eq!(items.deadline(), Some(start + limit));
            assert_eq!(items.next().await, late());
            assert_eq!((start.elapsed(), items.deadline()), (limit, None));

            let mut waiting = task::spawn(&mut items);
            assert_pending!(waiting.poll_next());
            advance(limit * 10).await;
            assert!(!waiting.is_woken(), "one error for a gap");
            assert_pending!(waiting.poll_next());
            sender.unbounded_send(item).unwrap();
            assert!(waiting.is_woken());
            assert_ready_eq!(waiting.poll_next(), Some(Ok(item)));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_limit_is_not_rounded() {
    let (limit, nanosecond) = (Duration::from_nanos(1_234_567), Duration::from_nanos(1));
    // A clock that stands between two milliseconds fires nothing, but what is first polled then sees it.
    let wheel = TimingWheel::new();
    let [mut before, mut after] =
        [(); 2].map(|()| task::spawn(stream::pending::<u32>().timeout_on(&wheel, limit)));
    advance(limit - nanosecond).await;
    assert_pending!(before.poll_next());
    advance(nanosecond).await;
    assert_ready_eq!(after.poll_next(), late());
}

#[tokio::test(start_paused = true)]
async fn the_first_gap_begins_with_the_call_not_with_the_first_poll() {
    let mut items = stream::pending::<u32>().timeout_on(&TimingWheel::new(), ms(10));
    let start = Instant::now();
    advance(ms(7)).await;
    assert_eq!(items.next().await, late());
    assert_eq!(start.elapsed(), ms(10));
}

#[tokio::test(start_paused = true)]
async fn an_item_that_becomes_ready_together_with_the_deadline_wins() {
    let (sender, receiver) = channel();
    let mut items = task::spawn(receiver.timeout_on(&TimingWheel::new(), ms(10)));
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
    let mut items = task::spawn(receiver.timeout_on(&wheel, SECOND));
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
    let mut items = receiver.timeout_on(&TimingWheel::new(), ms(10));
    let start = Instant::now();
    Pin::new(&mut items).set_limit(ms(30));
    assert_eq!(items.limit(), ms(30));
    assert_eq!(items.next().await, late());
    assert_eq!(start.elapsed(), ms(10));
    sender.unbounded_send(1).unwrap();
    assert_eq!(items.next().await, Some(Ok(1)));
    assert_eq!(items.next().await, late());
    assert_eq!(start.elapsed(), ms(40));
}

#[tokio::test(start_paused = true)]
async fn the_deadline_of_a_gap_can_be_moved_before_its_error_and_after() {
    let start = Instant::now();
    let mut items = stream::pending::<u32>().timeout_on(&TimingWheel::new(), ms(10));
    for (to, at) in [(25, 25), (27, 27), (20, 27), (60, 60)] {
        assert_pending!(task::spawn(&mut items).poll_next());
        Pin::new(&mut items).reset(start + ms(to));
        assert_eq!(items.deadline(), Some(start + ms(to)));
        assert_eq!(items.next().await, late());
        assert_eq!(start.elapsed(), ms(at));
    }
    Pin::new(&mut items).reset_after(ms(5));
    assert_eq!(items.next().await, late());
    assert_eq!(start.elapsed(), ms(65));
}

#[tokio::test(start_paused = true)]
async fn there_is_no_deadline_after_the_end_of_the_stream_within() {
    let mut items = stream::empty::<u32>().timeout_on(&TimingWheel::new(), ms(10));
    assert!(items.deadline().is_some());
    assert_eq!(items.next().await, None);
    assert_eq!(items.deadline(), None);
}

#[tokio::test(start_paused = true)]
async fn a_limit_beyond_reach_is_never_too_short() {
    let wheel = TimingWheel::new();
    let mut items = pin!(stream::once(wheel.sleep(DAY * 36_525)).timeout_on(&wheel, Duration::MAX));
    assert_eq!(items.next().await, Some(Ok(())));
    assert_eq!(items.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn without_a_timer_each_gap_gives_one_error_that_says_why() {
    for (wheel, says_why) in
        [(ended_wheel(), is_shutdown as fn(Elapsed) -> bool), (full_wheel(), is_at_capacity)]
    {
        let (sender, receiver) = channel();
        let mut items = task::spawn(receiver.timeout_on(&wheel, SECOND));
        for item in 0..3 {
            let error = items.next().await.unwrap().unwrap_err();
            assert!(says_why(error), "{error}");
            assert_pending!(items.poll_next());
            sender.unbounded_send(item).unwrap();
            assert_ready_eq!(items.poll_next(), Some(Ok(item)));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_wheel_that_ends_wakes_whoever_waits() {
    let wheel = TimingWheel::new();
    let mut items = task::spawn(stream::pending::<u32>().timeout_on(&wheel, SECOND));
    assert_pending!(items.poll_next());
    wheel.shutdown();
    assert!(items.is_woken());
    assert!(is_shutdown(items.next().await.unwrap().unwrap_err()));
}

#[tokio::test(start_paused = true)]
async fn after_an_item_a_timer_that_was_refused_is_tried_again() {
    let wheel = TimingWheel::builder().max_pending(1).build().unwrap();
    let place = wheel.try_sleep(DAY).unwrap();
    let (sender, receiver) = channel();
    let mut items = receiver.timeout_on(&wheel, ms(10));
    assert!(is_at_capacity(items.next().await.unwrap().unwrap_err()));
    drop(place);
    sender.unbounded_send(1).unwrap();
    assert_eq!(items.next().await, Some(Ok(1)));
    assert_eq!(items.next().await, late());
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_spends_the_whole_budget_at_each_poll_cannot_escape_its_limit() {
    let mut items = task::spawn(busy_stream().timeout_on(&TimingWheel::new(), ms(10)));
    assert_pending!(items.poll_next());
    advance(ms(10)).await;
    assert_ready_eq!(items.poll_next(), late());
}

#[tokio::test(start_paused = true)]
async fn an_error_waits_when_the_budget_was_spent_before_it_and_is_not_lost() {
    let mut items = stream::pending::<u32>().timeout_on(&TimingWheel::new(), Duration::ZERO);
    assert_waits_without_budget(&mut items).await;
    assert_ready_eq!(task::spawn(&mut items).poll_next(), late());
}

#[tokio::test(start_paused = true)]
async fn a_task_that_only_ever_gets_errors_lets_others_run() {
    assert_lets_others_run(hesitant_stream().timeout_on(&TimingWheel::new(), Duration::ZERO)).await;
}

/// Where the clock cannot be paused, a timer that is moved to now is left to the driver.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_several_workers_too_each_gap_gives_one_error() {
    let wheel = TimingWheel::new();
    let tasks: Vec<_> = [Duration::ZERO, Duration::from_micros(10), ms(1)]
        .map(|limit| {
            let (sender, receiver) = channel();
            let mut items = receiver.timeout_on(&wheel, limit);
            tokio::spawn(async move {
                for item in 0..100 {
                    assert_eq!(items.next().await, late());
                    sender.unbounded_send(item).unwrap();
                    assert_eq!(items.next().await, Some(Ok(item)));
                }
            })
        })
        .into();
    for task in tasks {
        task.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_stream_is_the_end() {
    assert_ends(ends_once().timeout_on(&TimingWheel::new(), SECOND));
}

#[tokio::test(start_paused = true)]
async fn the_size_hint_counts_the_errors_that_may_come() {
    let wheel = TimingWheel::new();
    assert_eq!(busy_stream().timeout_on(&wheel, SECOND).size_hint(), (0, None));

    // Two items and one that is left out; an error before each of them.
    let (sender, receiver) = channel();
    let two = receiver.take(2).chain(stream::once(wheel.sleep(DAY)).filter_map(async |()| None));
    let mut items = pin!(two.timeout_on(&wheel, SECOND));
    let mut upper = Vec::new();
    for item in 0..2 {
        upper.push(items.size_hint().1);
        assert_eq!(items.next().await, late());
        upper.push(items.size_hint().1);
        sender.unbounded_send(item).unwrap();
        assert_eq!(items.next().await, Some(Ok(item)));
    }
    upper.push(items.size_hint().1);
    assert_eq!(items.next().await, late());
    upper.push(items.size_hint().1);
    assert_eq!(items.next().await, None);
    assert_eq!(upper, [Some(7), Some(6), Some(5), Some(4), Some(3), Some(2)]);
}

#[tokio::test(start_paused = true)]
async fn the_stream_within_can_be_looked_at_changed_and_taken_out() {
    let wheel = TimingWheel::new();
    let mut items = stream::iter(vec![1, 2, 3]).timeout_on(&wheel, SECOND);
    assert_send_sync_unpin_debug(&items);
    assert_eq!(items.get_ref().size_hint(), (3, Some(3)));
    assert_eq!(items.get_mut().next().await, Some(1));
    assert_eq!(Pin::new(&mut items).get_pin_mut().next().await, Some(2));
    assert!(!items.is_terminated());
    assert_eq!(items.into_inner().collect::<Vec<_>>().await, [3]);
}
