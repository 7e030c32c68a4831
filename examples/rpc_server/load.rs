//! Draws the next step of a client at random.

use std::ops::Range;
use std::time::Duration;

use fastrand::Rng;

use crate::settings::{LONGEST_THINK, Settings};

/// How long a client thinks, as a multiple of the average.
const THINK: Range<f64> = 0.5..LONGEST_THINK;
/// How long work takes, as a multiple of the request timeout: most of it well below, so that a busy machine does
/// not make it overrun, and the slow share well above, so that it cannot get done.
const QUICK_WORK: Range<f64> = 0.1..0.5;
const SLOW_WORK: Range<f64> = 1.5..3.0;

/// Draws what one client does. The same seed and settings draw the same.
#[derive(Debug)]
pub(crate) struct Load {
    random: Rng,
    think: Duration,
    request_timeout: Duration,
    slow_share: f64,
    silent_share: f64,
}

/// Work of a request, as drawn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    pub(crate) takes: Duration,
    /// Whether that is longer than a request may take.
    pub(crate) is_slow: bool,
}

impl Load {
    pub(crate) fn new(settings: &Settings, client: u64) -> Self {
        let Settings { think, request_timeout, slow_share, silent_share, seed, .. } = *settings;
        let random = Rng::with_seed(Rng::with_seed(seed).u64(..).wrapping_add(client));
        Self { random, think, request_timeout, slow_share, silent_share }
    }

    pub(crate) fn think(&mut self) -> Duration {
        self.think.mul_f64(self.between(THINK))
    }

    pub(crate) fn work(&mut self) -> Work {
        let is_slow = self.random.f64() < self.slow_share;
        let share = self.between(if is_slow { SLOW_WORK } else { QUICK_WORK });
        Work { takes: self.request_timeout.mul_f64(share), is_slow }
    }

    /// Whether the client now goes silent.
    pub(crate) fn goes_silent(&mut self) -> bool {
        self.random.f64() < self.silent_share
    }

    fn between(&mut self, range: Range<f64>) -> f64 {
        range.start + self.random.f64() * (range.end - range.start)
    }
}
