//! `IntervalStream`: an interval's ticks. On tokio's paused clock.

mod streams;

use futures::stream::{FusedStream, Stream, StreamExt};
use streams::*;
use timingwheel::stream::IntervalStream;
use timingwheel::{Interval, TimingWheel};
use tokio::time::Instant;

#[tokio::test(start_paused = true)]
async fn the_ticks_come_when_they_are_due_and_are_the_instants_of_that() {
    let start = Instant::now();
    let mut ticks = IntervalStream::new(TimingWheel::new().interval(SECOND));
    for n in 0..100 {
        assert_eq!(ticks.next().await, Some(start + SECOND * n));
        assert_eq!(start.elapsed(), SECOND * n);
    }
}

#[tokio::test(start_paused = true)]
async fn the_interval_can_be_looked_at_changed_and_taken_out() {
    let start = Instant::now();
    let mut ticks = IntervalStream::from(TimingWheel::new().interval(SECOND));
    assert_send_sync_unpin_debug(&ticks);
    assert_eq!(ticks.next().await, Some(start));
    let interval: &Interval = ticks.as_ref();
    assert_eq!(interval.period(), SECOND);
    ticks.as_mut().reset_after(SECOND * 3);
    assert_eq!(ticks.next().await, Some(start + SECOND * 3));
    let mut interval = ticks.into_inner();
    assert_eq!(interval.tick().await, start + SECOND * 4);
}

#[tokio::test(start_paused = true)]
async fn it_never_ends_and_says_so() {
    let ticks = IntervalStream::new(TimingWheel::new().interval(SECOND));
    assert_eq!(ticks.size_hint(), (usize::MAX, None));
    assert!(!ticks.is_terminated());
}

#[tokio::test(start_paused = true)]
#[should_panic = "the timing wheel has ended"]
async fn polling_panics_if_the_wheel_has_ended() {
    let mut ticks = IntervalStream::new(ended_wheel().interval(SECOND));
    ticks.next().await;
    ticks.next().await;
}

#[tokio::test(start_paused = true)]
#[should_panic = "the timing wheel refused one more timer"]
async fn polling_panics_if_there_is_no_place_for_a_timer() {
    let mut ticks = IntervalStream::new(full_wheel().interval(SECOND));
    ticks.next().await;
    ticks.next().await;
}

#[tokio::test(start_paused = true)]
async fn a_task_that_only_ever_gets_ticks_lets_others_run() {
    let interval = TimingWheel::new().interval(std::time::Duration::from_nanos(1));
    tokio::time::advance(SECOND).await;
    assert_lets_others_run(IntervalStream::new(interval)).await;
}
