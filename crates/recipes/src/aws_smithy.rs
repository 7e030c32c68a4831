//! The AWS SDK: sleeps for its time-outs and retries. Give it to `aws_config`'s `sleep_impl`.

use std::time::Duration;

use aws_smithy_async::rt::sleep::{AsyncSleep, Sleep};
use timingwheel::TimingWheel;

/// Sleeps on a wheel.
#[derive(Clone, Debug)]
pub struct OnWheel(pub TimingWheel);

impl AsyncSleep for OnWheel {
    fn sleep(&self, duration: Duration) -> Sleep {
        Sleep::new(self.0.sleep(duration))
    }
}

#[cfg(test)]
mod tests {
    use aws_smithy_async::future::timeout::Timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_timeout_of_the_sdks_is_fired_by_the_wheel() {
        let sleeps = OnWheel(TimingWheel::new());
        let never = std::future::pending::<()>();
        assert!(Timeout::new(never, sleeps.sleep(Duration::from_secs(3))).await.is_err());
        assert_eq!(sleeps.0.stats().fired, 1);
    }
}
