//! `FutureTimeExt`: the wheel's timeouts at the end of a chain of calls. On tokio's paused clock.
//! `stream_names` shows that its names clash with nothing.

use std::future;
use std::time::Duration;

use timingwheel::{FutureTimeExt, TimingWheel, time};
use tokio::time::Instant;

const LIMIT: Duration = Duration::from_secs(3);

#[tokio::test(start_paused = true)]
async fn a_future_that_is_in_time_gives_its_output_and_never_touches_the_wheel() {
    let wheel = TimingWheel::new();
    assert_eq!(async { 1 }.timeout_on(&wheel, Duration::ZERO).await, Ok(1));
    assert_eq!(async { 2 }.timeout_at_on(&wheel, Instant::now()).await, Ok(2));
    assert_eq!(wheel.stats().armed, 0);
}

#[tokio::test(start_paused = true)]
async fn a_future_that_is_late_is_given_up_exactly_at_the_deadline_on_the_wheel_that_was_named() {
    let (wheel, other) = (TimingWheel::new(), TimingWheel::new());
    let start = Instant::now();
    assert!(future::pending::<()>().timeout_on(&wheel, LIMIT).await.is_err());
    assert_eq!(start.elapsed(), LIMIT);
    assert!(future::pending::<()>().timeout_at_on(&wheel, start + LIMIT * 2).await.is_err());
    assert_eq!(start.elapsed(), LIMIT * 2);
    assert_eq!((wheel.stats().fired, other.stats().armed), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn the_time_counts_from_the_call_and_is_not_rounded() {
    let limit = Duration::from_nanos(1_234_567);
    let call = future::pending::<()>().timeout_on(&TimingWheel::new(), limit);
    assert_eq!(call.deadline(), Instant::now() + limit);
}

#[tokio::test(start_paused = true)]
async fn the_wheel_of_the_runtime_will_do() {
    let call = future::pending::<()>().timeout_on(&time::wheel(), LIMIT);
    assert!(call.await.is_err());
    assert_eq!(time::wheel().stats().fired, 1);
}
