//! backon: retries that pause on the wheel.

use std::time::Duration;

use backon::{ExponentialBuilder, Retryable};
use timingwheel::TimingWheel;

/// Calls `fetch` until it succeeds, at most four times.
///
/// # Errors
/// The last one of `fetch`.
pub async fn retried<T, E>(wheel: TimingWheel, fetch: impl AsyncFn() -> Result<T, E>) -> Result<T, E> {
    let pauses = ExponentialBuilder::default().with_min_delay(Duration::from_secs(1)).with_max_times(3);
    // Jitter adds up to as much again, at the longest pause too: clients that failed together do not retry together.
    let pauses = pauses.with_max_delay(Duration::from_secs(30)).with_jitter();
    (|| fetch()).retry(pauses).sleep(move |pause| wheel.sleep(pause)).await
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use backon::BackoffBuilder;

    use super::*;

    #[test]
    fn pauses_differ_at_the_longest_too() {
        let pauses = ExponentialBuilder::default().with_max_delay(Duration::from_secs(2)).with_max_times(20);
        let last = |seed| pauses.with_jitter().with_jitter_seed(seed).build().last();
        assert!(last(1) >= Some(Duration::from_secs(2)));
        assert_ne!(last(1), last(2));
    }

    #[tokio::test(start_paused = true)]
    async fn retries_pause_on_the_wheel() {
        let wheel = TimingWheel::new();
        let calls = Cell::new(0);
        let fetch = async || {
            calls.set(calls.get() + 1);
            if calls.get() < 3 { Err("not yet") } else { Ok("here") }
        };
        assert_eq!(retried(wheel.clone(), fetch).await, Ok("here"));
        assert_eq!((calls.get(), wheel.stats().fired), (3, 2));
    }
}
