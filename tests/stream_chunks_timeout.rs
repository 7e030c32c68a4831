//! `chunks_timeout_on`: chunks by size and by time. On tokio's paused clock.

mod streams;

use std::pin::{Pin, pin};
use std::time::Duration;

use futures::stream::{self, FusedStream, Stream, StreamExt};
use streams::*;
use timingwheel::TimingWheel;
use timingwheel::stream::StreamTimeExt;
use tokio::time::{Instant, advance};
use tokio_test::{assert_pending, assert_ready, assert_ready_eq, task};

#[tokio::test(start_paused = true)]
async fn what_is_ready_at_once_comes_in_full_chunks_and_never_touches_the_wheel() {
    let wheel = TimingWheel::new();
    let chunks: Vec<_> = stream::iter(0..7).chunks_timeout_on(&wheel, 3, Duration::ZERO).collect().await;
    assert_eq!(chunks, [vec![0, 1, 2], vec![3, 4, 5], vec![6]]);
    assert_eq!(wheel.stats().armed, 0);
}

#[tokio::test(start_paused = true)]
async fn a_chunk_comes_when_its_first_item_is_as_old_as_asked_for() {
    for duration in [Duration::ZERO, ms(2), ms(64), ms(5_000), DAY] {
        let (sender, receiver) = channel();
        let mut chunks = receiver.chunks_timeout_on(&TimingWheel::new(), 10, duration);
        for _ in 0..3 {
            assert_pending!(task::spawn(&mut chunks).poll_next());
            advance(SECOND).await;
            sender.unbounded_send(1).unwrap();
            let start = Instant::now();
            if !duration.is_zero() {
                assert_pending!(task::spawn(&mut chunks).poll_next());
                advance(duration / 2).await;
                sender.unbounded_send(2).unwrap();
                assert_pending!(task::spawn(&mut chunks).poll_next());
            }
            let chunk = chunks.next().await.unwrap();
            assert_eq!(chunk, if duration.is_zero() { vec![1] } else { vec![1, 2] });
            assert_eq!(start.elapsed(), duration);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn no_chunk_is_empty_however_long_nothing_comes() {
    let wheel = TimingWheel::new();
    let (sender, receiver) = channel();
    let mut chunks = task::spawn(receiver.chunks_timeout_on(&wheel, 2, ms(10)));
    for item in [1, 2] {
        sender.unbounded_send(item).unwrap();
        assert_eq!(chunks.next().await, Some(vec![item]));
        assert_pending!(chunks.poll_next());
        advance(DAY).await;
        assert!(!chunks.is_woken());
    }
    assert_eq!(wheel.pending(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_last_chunk_comes_with_the_end() {
    let start = Instant::now();
    let (sender, receiver) = channel();
    let mut chunks = receiver.chunks_timeout_on(&TimingWheel::new(), 10, SECOND);
    sender.unbounded_send(1).unwrap();
    assert_pending!(task::spawn(&mut chunks).poll_next());
    drop(sender);
    assert!(!chunks.is_terminated());
    assert_eq!(chunks.next().await, Some(vec![1]));
    assert_eq!(start.elapsed(), ms(0));
    assert_stays_ended(chunks);
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_items_in_full_chunks_take_one_timer() {
    let wheel = TimingWheel::new();
    let (sender, receiver) = channel();
    let mut chunks = task::spawn(receiver.chunks_timeout_on(&wheel, 2, SECOND));
    for item in 0..5_000 {
        sender.unbounded_send(item).unwrap();
        assert_pending!(chunks.poll_next());
        advance(ms(500)).await;
        sender.unbounded_send(item).unwrap();
        assert_ready_eq!(chunks.poll_next(), Some(vec![item, item]));
    }
    assert_eq!((wheel.stats().armed, wheel.pending()), (1, 1));
    drop(chunks);
    assert_eq!((wheel.stats().cancelled, wheel.pending()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn what_waits_can_be_taken_out_and_the_stream_goes_on() {
    let start = Instant::now();
    let (sender, receiver) = channel();
    let mut chunks = receiver.chunks_timeout_on(&TimingWheel::new(), 10, ms(10));
    sender.unbounded_send(1).unwrap();
    assert_pending!(task::spawn(&mut chunks).poll_next());
    assert_eq!(Pin::new(&mut chunks).into_remainder(), [1]);
    assert!(Pin::new(&mut chunks).into_remainder().is_empty());
    advance(ms(15)).await;
    assert_pending!(task::spawn(&mut chunks).poll_next());
    sender.unbounded_send(2).unwrap();
    assert_eq!(chunks.next().await, Some(vec![2]));
    assert_eq!(start.elapsed(), ms(25));
}

#[tokio::test(start_paused = true)]
async fn a_duration_beyond_reach_is_never_too_short() {
    let wheel = TimingWheel::new();
    let items = stream::iter([0]).chain(stream::once(async { wheel.sleep(DAY * 36_525).await }).map(|()| 1));
    let mut chunks = pin!(items.chunks_timeout_on(&wheel, usize::MAX, Duration::MAX));
    assert_eq!(chunks.next().await, Some(vec![0, 1]));
}

#[tokio::test(start_paused = true)]
#[should_panic = "chunk size must be at least 1, got 0"]
async fn a_size_of_zero_is_refused() {
    let _ = stream::iter(0..3).chunks_timeout_on(&TimingWheel::new(), 0, SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_chunk_takes_the_memory_of_the_one_before_and_not_that_of_the_largest_size() {
    let (sender, receiver) = channel();
    let mut chunks = task::spawn(receiver.chunks_timeout_on(&TimingWheel::new(), 1_000, ms(10)));
    for (sent, at_most) in [(1, 10), (100, 200), (1, 100), (1, 1)] {
        for item in 0..sent {
            sender.unbounded_send(item).unwrap();
        }
        let chunk = chunks.next().await.unwrap();
        assert_eq!(chunk.len(), sent as usize);
        assert!(chunk.capacity() <= at_most, "{} for {sent}", chunk.capacity());
    }
    for item in 0..2_000 {
        sender.unbounded_send(item).unwrap();
    }
    chunks.next().await.unwrap();
    assert_eq!(chunks.next().await.unwrap().capacity(), 1_000);
}

#[tokio::test(start_paused = true)]
async fn without_a_timer_a_chunk_comes_early_and_nothing_is_lost() {
    for wheel in [ended_wheel(), full_wheel()] {
        let start = Instant::now();
        let (sender, receiver) = channel();
        let mut chunks = task::spawn(receiver.chunks_timeout_on(&wheel, 2, SECOND));
        for item in 0..3 {
            sender.unbounded_send(item).unwrap();
        }
        assert_eq!(chunks.next().await, Some(vec![0, 1]));
        assert_eq!(chunks.next().await, Some(vec![2]));
        assert_eq!(start.elapsed(), ms(0));
        assert_pending!(chunks.poll_next());
    }
}

#[tokio::test(start_paused = true)]
async fn a_wheel_that_ends_wakes_whoever_waits() {
    let wheel = TimingWheel::new();
    let items = stream::iter(0..1).chain(stream::pending());
    let mut chunks = task::spawn(items.chunks_timeout_on(&wheel, 2, SECOND));
    assert_pending!(chunks.poll_next());
    wheel.shutdown();
    assert!(chunks.is_woken());
    assert_ready_eq!(chunks.poll_next(), Some(vec![0]));
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_spends_the_whole_budget_at_each_poll_cannot_escape_its_time() {
    let items = stream::iter(0..1).chain(busy_stream());
    let mut chunks = task::spawn(items.chunks_timeout_on(&TimingWheel::new(), 2, ms(10)));
    assert_pending!(chunks.poll_next());
    advance(ms(10)).await;
    assert_ready_eq!(chunks.poll_next(), Some(vec![0]));
}

#[tokio::test(start_paused = true)]
async fn a_chunk_waits_when_the_budget_was_spent_before_it_and_is_not_lost() {
    let items = stream::iter(0..1).chain(stream::pending());
    let mut chunks = items.chunks_timeout_on(&TimingWheel::new(), 2, Duration::ZERO);
    assert_waits_without_budget(&mut chunks).await;
    assert_ready_eq!(task::spawn(&mut chunks).poll_next(), Some(vec![0]));
}

#[tokio::test(start_paused = true)]
async fn a_task_that_only_ever_gets_chunks_by_time_lets_others_run() {
    assert_lets_others_run(hesitant_stream().chunks_timeout_on(&TimingWheel::new(), 2, Duration::ZERO)).await;
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_stream_is_the_end() {
    assert_ends(ends_once().chunks_timeout_on(&TimingWheel::new(), 2, SECOND));
}

#[tokio::test(start_paused = true)]
async fn the_size_hint_is_of_the_fewest_and_the_most_chunks() {
    let wheel = TimingWheel::new();
    let hint = |items: u32, size| stream::iter(0..items).chunks_timeout_on(&wheel, size, SECOND).size_hint();
    assert_eq!(hint(7, 3), (3, Some(7)));
    assert_eq!(hint(6, 3), (2, Some(6)));
    assert_eq!(hint(0, 3), (0, Some(0)));
    assert_eq!(hint(7, usize::MAX), (1, Some(7)));

    // With two that wait, and three more to come.
    let (sender, receiver) = channel();
    let items = receiver.take(5);
    let mut chunks = task::spawn(items.chunks_timeout_on(&wheel, 4, SECOND));
    for item in 0..2 {
        sender.unbounded_send(item).unwrap();
    }
    assert_pending!(chunks.poll_next());
    assert_eq!(chunks.size_hint(), (1, Some(4)));
    drop(sender);
    assert_ready!(chunks.poll_next());
    assert_eq!(chunks.size_hint(), (0, Some(0)));
}

#[tokio::test(start_paused = true)]
async fn the_stream_within_can_be_looked_at_changed_and_taken_out() {
    let mut chunks = stream::iter(vec![1, 2, 3]).chunks_timeout_on(&TimingWheel::new(), 2, SECOND);
    assert_send_sync_unpin_debug(&chunks);
    assert_eq!(chunks.get_ref().size_hint(), (3, Some(3)));
    assert_eq!(chunks.get_mut().next().await, Some(1));
    assert_eq!(Pin::new(&mut chunks).get_pin_mut().next().await, Some(2));
    assert_eq!(chunks.into_inner().collect::<Vec<_>>().await, [3]);
}
