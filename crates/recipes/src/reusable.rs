//! A limit for each operation of a connection, by one timer that is moved.

use std::pin::Pin;

use timingwheel::Sleep;
use tokio::select;
use tokio::time::Instant;

/// Runs `operation` until `end`. `None` if it is not ready by then. The connection keeps `timer` for its next operation.
pub async fn run_until<T>(timer: &mut Sleep, end: Instant, operation: impl Future<Output = T>) -> Option<T> {
    Pin::new(&mut *timer).reset(end);
    select! {
        biased;
        output = operation => Some(output),
        () = timer => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use timingwheel::TimingWheel;
    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn many_operations_share_a_timer_and_each_has_its_own_end() {
        let (wheel, ms) = (TimingWheel::new(), Duration::from_millis);
        let mut timer = wheel.sleep(ms(0));
        for (limit, takes) in [(20, 10), (20, 30), (50, 30), (5, 0), (10, 11)] {
            let start = Instant::now();
            let end = run_until(&mut timer, start + ms(limit), sleep(ms(takes))).await;
            assert_eq!((end.is_some(), start.elapsed()), (takes < limit, ms(takes.min(limit))));
        }
        assert!(wheel.pending() <= 1, "one timer");
    }
}
