//! A time limit that starts again and again, on one timer that is moved.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::Instant;

use crate::error::Elapsed;
use crate::handle::timing_wheel::TimingWheel;
use crate::timers::sleep::Sleep;
use crate::timers::timeout::poll_deadline;

#[derive(Debug)]
pub(super) struct Countdown {
    duration: Duration,
    /// Moved with each start. Its entry stays in the wheel in between.
    sleep: Sleep,
    is_running: bool,
}

impl Countdown {
    /// One that runs from now on.
    pub(super) fn running(wheel: &TimingWheel, duration: Duration) -> Self {
        Self { duration, sleep: wheel.sleep(duration), is_running: true }
    }

    /// One that has yet to be started.
    pub(super) fn stopped(wheel: &TimingWheel, duration: Duration) -> Self {
        Self { is_running: false, ..Self::running(wheel, duration) }
    }

    pub(super) const fn duration(&self) -> Duration {
        self.duration
    }

    /// Sets the time that it runs for from its next start on.
    pub(super) const fn set_duration(&mut self, duration: Duration) {
        self.duration = duration;
    }

    /// Whether it was started and has not ended since.
    pub(super) const fn is_running(&self) -> bool {
        self.is_running
    }

    /// When it ends, if it runs.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.is_running.then(|| self.sleep.deadline())
    }

    /// Starts, running or not, for the whole time from now.
    pub(super) fn restart(&mut self) {
        self.run_for(self.duration);
    }

    /// Lets it run for `duration` from now, whether it ran or not.
    pub(super) fn run_for(&mut self, duration: Duration) {
        self.sleep.move_to(self.sleep.now().after(duration));
        self.is_running = true;
    }

    /// Lets it run until `deadline`, whether it ran or not.
    pub(super) fn run_until(&mut self, deadline: Instant) {
        Pin::new(&mut self.sleep).reset(deadline);
        self.is_running = true;
    }

    /// Ready, once, when it has ended or cannot run. `had_budget` tells whether the task had any before the stream was
    /// polled.
    pub(super) fn poll_end(&mut self, had_budget: bool, cx: &mut Context<'_>) -> Poll<Elapsed> {
        if !self.is_running {
            return Poll::Pending;
        }
        let elapsed = ready!(poll_deadline(&mut self.sleep, had_budget, cx));
        self.is_running = false;
        Poll::Ready(elapsed)
    }

    /// Ready unless it runs. Panics, as a [`Sleep`] does, if it cannot run.
    pub(super) fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.is_running {
            ready!(Pin::new(&mut self.sleep).poll(cx));
            self.is_running = false;
        }
        Poll::Ready(())
    }
}
