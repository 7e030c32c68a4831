//! tower's retries, with pauses on the wheel and the layer in one stack.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use timingwheel::tower::TimeoutLayer;
use timingwheel::{Sleep, TimingWheel};
use tokio::time::{Instant, sleep};
use tower::retry::Policy;
use tower::timeout::error::Elapsed;
use tower::{BoxError, Service, ServiceBuilder, ServiceExt};

use super::{SECOND, assert_nothing_pending};

/// Tries so often again what ran out of time.
#[derive(Clone)]
struct Again {
    left: u32,
    wheel: TimingWheel,
    pause: Duration,
}

impl Policy<u32, u32, BoxError> for Again {
    type Future = Sleep;

    fn retry(&mut self, _: &mut u32, result: &mut Result<u32, BoxError>) -> Option<Sleep> {
        let is_elapsed = result.as_ref().is_err_and(|error| error.is::<Elapsed>());
        self.left = self.left.checked_sub(1)?;
        is_elapsed.then(|| {
            let pause = self.pause;
            self.pause += 10 * SECOND;
            self.wheel.sleep(pause)
        })
    }

    fn clone_request(&mut self, request: &u32) -> Option<u32> {
        Some(*request)
    }
}

/// Sends a request whose first `hang` tries hang. Each try has a second, and there are four.
async fn ask(wheel: &TimingWheel, hang: u32) -> Result<u32, BoxError> {
    let tries = Arc::new(AtomicU32::new(0));
    let mut service = ServiceBuilder::new()
        .buffer::<u32>(8)
        .retry(Again { left: 3, wheel: wheel.clone(), pause: 10 * SECOND })
        .layer(TimeoutLayer::new(wheel.clone(), SECOND))
        .service_fn(move |hang| {
            let tried = tries.fetch_add(1, Ordering::Relaxed);
            async move {
                if tried < hang {
                    sleep(1_000 * SECOND).await;
                }
                Ok::<_, BoxError>(tried + 1)
            }
        });
    service.ready().await?.call(hang).await
}

#[tokio::test(start_paused = true)]
async fn tries_and_pauses_take_their_times_one_after_the_other() {
    let wheel = TimingWheel::new();
    for (hang, seconds) in [(0, 0), (1, 1 + 10), (2, 1 + 10 + 1 + 20), (3, 1 + 10 + 1 + 20 + 1 + 30)] {
        let start = Instant::now();
        assert_eq!(ask(&wheel, hang).await.unwrap(), hang + 1);
        assert_eq!(start.elapsed(), seconds * SECOND);
        assert_nothing_pending(&wheel);
    }
}

#[tokio::test(start_paused = true)]
async fn when_no_try_is_left_the_last_error_is_the_answer() {
    let (wheel, start) = (TimingWheel::new(), Instant::now());
    assert!(ask(&wheel, 4).await.unwrap_err().is::<Elapsed>());
    assert_eq!(start.elapsed(), (1 + 10 + 1 + 20 + 1 + 30 + 1) * SECOND);
    // A timer for each try, and one for each pause.
    assert_eq!((wheel.stats().fired, wheel.pending()), (4 + 3, 0));
}
