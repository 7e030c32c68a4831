//! `timeout_repeating_on`: an error at each tick without an item. On tokio's paused clock.

mod streams;

use std::pin::Pin;

use futures::stream::{self, FusedStream, Stream, StreamExt};
use streams::*;
use timingwheel::stream::{StreamTimeExt, TimeoutRepeating};
use timingwheel::{Elapsed, TimingWheel};
use tokio::time::{Instant, MissedTickBehavior, advance};
use tokio_test::{assert_pending, assert_ready_eq, task};

fn late() -> Option<Result<u32, Elapsed>> {
    Some(Err(Elapsed::default()))
}

/// With errors every ten milliseconds, the first of them after ten.
fn every_ten<S: Stream>(stream: S, wheel: &TimingWheel) -> TimeoutRepeating<S> {
    stream.timeout_repeating_on(wheel.interval_at(Instant::now() + ms(10), ms(10)))
}

#[tokio::test(start_paused = true)]
async fn what_is_ready_at_once_never_touches_the_wheel() {
    let wheel = TimingWheel::new();
    let items: Vec<_> = stream::iter(0..100).timeout_repeating_on(wheel.interval(SECOND)).collect().await;
    assert_eq!(items, (0..100).map(Ok).collect::<Vec<_>>());
    assert_eq!(wheel.stats().armed, 0);
}

#[tokio::test(start_paused = true)]
async fn a_gap_gives_an_error_for_each_period_and_an_item_starts_the_next() {
    let start = Instant::now();
    let (sender, receiver) = channel();
    let mut items = every_ten(receiver, &TimingWheel::new());
    for n in 1..=100 {
        assert_eq!(items.next().await, late());
        assert_eq!(start.elapsed(), ms(10) * n);
    }
    advance(ms(7)).await;
    sender.unbounded_send(1).unwrap();
    assert_eq!(items.next().await, Some(Ok(1)));
    assert_eq!(items.next().await, late());
    assert_eq!(start.elapsed(), ms(1_017));
}

#[tokio::test(start_paused = true)]
async fn an_interval_that_ticks_at_once_gives_an_error_at_once() {
    let start = Instant::now();
    let mut items = stream::pending::<u32>().timeout_repeating_on(TimingWheel::new().interval(SECOND));
    assert_eq!(items.next().await, late());
    assert_eq!(start.elapsed(), ms(0));
    assert_eq!(items.next().await, late());
    assert_eq!(start.elapsed(), SECOND);
}

#[tokio::test(start_paused = true)]
async fn an_item_that_becomes_ready_together_with_a_tick_wins() {
    let (sender, receiver) = channel();
    let mut items = task::spawn(every_ten(receiver, &TimingWheel::new()));
    assert_pending!(items.poll_next());
    advance(ms(10)).await;
    sender.unbounded_send(1).unwrap();
    assert_ready_eq!(items.poll_next(), Some(Ok(1)));
    assert_pending!(items.poll_next());
}

#[tokio::test(start_paused = true)]
async fn missed_ticks_are_the_intervals_affair() {
    for (behavior, errors) in [(MissedTickBehavior::Burst, 4), (MissedTickBehavior::Skip, 1)] {
        let wheel = TimingWheel::new();
        let mut interval = wheel.interval_at(Instant::now() + ms(10), ms(10));
        interval.set_missed_tick_behavior(behavior);
        let mut items = task::spawn(stream::pending::<u32>().timeout_repeating_on(interval));
        assert_pending!(items.poll_next());
        advance(ms(45)).await;
        for _ in 0..errors {
            assert_ready_eq!(items.poll_next(), late());
        }
        assert_pending!(items.poll_next());
    }
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_items_take_one_timer() {
    let wheel = TimingWheel::new();
    let (sender, receiver) = channel();
    let mut items = task::spawn(every_ten(receiver, &wheel));
    for item in 0..10_000 {
        assert_pending!(items.poll_next());
        advance(ms(9)).await;
        sender.unbounded_send(item).unwrap();
        assert_ready_eq!(items.poll_next(), Some(Ok(item)));
    }
    assert_eq!((wheel.stats().armed, wheel.pending()), (1, 1));
    drop(items);
    assert_eq!((wheel.stats().cancelled, wheel.pending()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn the_interval_can_be_changed() {
    let start = Instant::now();
    let mut items = every_ten(stream::pending::<u32>(), &TimingWheel::new());
    Pin::new(&mut items).interval_mut().set_period(ms(25));
    assert_eq!(items.interval().period(), ms(25));
    for at in [10, 35, 60] {
        assert_eq!(items.next().await, late());
        assert_eq!(start.elapsed(), ms(at));
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_timer_each_gap_gives_one_error_that_says_why() {
    for (wheel, says_why) in
        [(ended_wheel(), is_shutdown as fn(Elapsed) -> bool), (full_wheel(), is_at_capacity)]
    {
        let (sender, receiver) = channel();
        let mut items = task::spawn(every_ten(receiver, &wheel));
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
    let mut items = task::spawn(every_ten(stream::pending::<u32>(), &wheel));
    assert_pending!(items.poll_next());
    wheel.shutdown();
    assert!(items.is_woken());
    assert!(is_shutdown(items.next().await.unwrap().unwrap_err()));
    assert_pending!(items.poll_next());
}

#[tokio::test(start_paused = true)]
async fn an_interval_that_could_not_tick_is_tried_again_when_it_is_reset_and_after_an_item() {
    let wheel = TimingWheel::builder().max_pending(1).build().unwrap();
    let place = wheel.try_sleep(DAY).unwrap();
    let (sender, receiver) = channel();
    let mut items = every_ten(receiver, &wheel);
    assert!(is_at_capacity(items.next().await.unwrap().unwrap_err()));
    Pin::new(&mut items).interval_mut().reset();
    assert!(is_at_capacity(items.next().await.unwrap().unwrap_err()));
    drop(place);
    sender.unbounded_send(1).unwrap();
    assert_eq!(items.next().await, Some(Ok(1)));
    assert_eq!(items.next().await, late());
    assert_eq!(items.next().await, late());
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_spends_the_whole_budget_at_each_poll_cannot_escape_its_ticks() {
    let mut items = task::spawn(every_ten(busy_stream(), &TimingWheel::new()));
    for _ in 0..3 {
        assert_pending!(items.poll_next());
        tokio::task::yield_now().await;
        advance(ms(10)).await;
        assert_ready_eq!(items.poll_next(), late());
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_tick_waits_when_the_budget_was_spent_before_it_and_is_not_lost() {
    let mut items = stream::pending::<u32>().timeout_repeating_on(TimingWheel::new().interval(SECOND));
    assert_waits_without_budget(&mut items).await;
    assert_ready_eq!(task::spawn(&mut items).poll_next(), late());
}

#[tokio::test(start_paused = true)]
async fn a_task_that_only_ever_gets_errors_lets_others_run() {
    let interval = TimingWheel::new().interval(std::time::Duration::from_nanos(1));
    advance(SECOND).await;
    assert_lets_others_run(stream::pending::<u32>().timeout_repeating_on(interval)).await;
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_stream_is_the_end() {
    assert_ends(every_ten(ends_once(), &TimingWheel::new()));
}

#[tokio::test(start_paused = true)]
async fn the_size_hint_has_no_upper_bound() {
    assert_eq!(every_ten(stream::iter(0..3), &TimingWheel::new()).size_hint(), (3, None));
}

#[tokio::test(start_paused = true)]
async fn the_stream_within_can_be_looked_at_changed_and_taken_out() {
    let mut items = every_ten(stream::iter(vec![1, 2, 3]), &TimingWheel::new());
    assert_send_sync_unpin_debug(&items);
    assert_eq!(items.get_ref().size_hint(), (3, Some(3)));
    assert_eq!(items.get_mut().next().await, Some(1));
    assert_eq!(Pin::new(&mut items).get_pin_mut().next().await, Some(2));
    assert!(!items.is_terminated());
    assert_eq!(items.into_inner().collect::<Vec<_>>().await, [3]);
}
