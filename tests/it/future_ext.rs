//! `FutureTimeExt`: the wheel's timeouts at the end of a chain of calls. On tokio's paused clock.
//! `stream_names` shows that its names clash with nothing.

use std::future;
use std::time::Duration;

use timingwheel::{FutureTimeExt, TimingWheel};
use tokio::time::Instant;

const LIMIT: Duration = Duration::from_secs(3);

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
