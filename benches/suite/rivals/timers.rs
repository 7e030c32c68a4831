//! The timers, through one trait.

use std::future::{Pending, pending};
use std::time::Duration;

use pingora_timeout::fast_timeout::{FastOrTokioTimeout, fast_timeout};
use timingwheel::TimingWheel;

/// Makes sleeps.
pub(crate) trait Timer: Clone + Send + Sync + 'static {
    type Sleep: Future + Send + 'static;

    fn sleep(&self, delay: Duration) -> Self::Sleep;
}

impl Timer for TimingWheel {
    type Sleep = timingwheel::Sleep;

    fn sleep(&self, delay: Duration) -> Self::Sleep {
        Self::sleep(self, delay)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Tokio;

impl Timer for Tokio {
    type Sleep = tokio::time::Sleep;

    fn sleep(&self, delay: Duration) -> Self::Sleep {
        tokio::time::sleep(delay)
    }
}

#[derive(Clone, Debug)]
pub(super) struct AsyncIo;

impl Timer for AsyncIo {
    type Sleep = async_io::Timer;

    fn sleep(&self, delay: Duration) -> Self::Sleep {
        async_io::Timer::after(delay)
    }
}

#[derive(Clone, Debug)]
pub(super) struct FuturesTimer;

impl Timer for FuturesTimer {
    type Sleep = futures_timer::Delay;

    fn sleep(&self, delay: Duration) -> Self::Sleep {
        futures_timer::Delay::new(delay)
    }
}

#[derive(Clone, Debug)]
pub(super) struct Pingora;

impl Timer for Pingora {
    type Sleep = pingora_timeout::Timeout<Pending<()>, FastOrTokioTimeout>;

    fn sleep(&self, delay: Duration) -> Self::Sleep {
        fast_timeout(delay, pending())
    }
}
