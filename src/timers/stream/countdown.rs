//! A time limit that starts again and again, on one timer that is moved.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::Instant;

use crate::error::Elapsed;
use crate::handle::timing_wheel::TimingWheel;
use crate::timers::sleep::Sleep;
use crate::timers::timeout::poll_deadline;
use crate::timers::tolerance::{Slack, Tolerance};
use crate::wheel::Nanos;

#[derive(Debug)]
pub(super) struct Countdown {
    duration: Duration,
    /// Moved with each start. Its entry stays in the wheel in between.
    sleep: Sleep,
    is_running: bool,
    slack: Slack,
}

impl Countdown {
    /// One that runs from now on.
    pub(super) fn running(wheel: &TimingWheel, duration: Duration) -> Self {
        Self { duration, sleep: wheel.sleep(duration), is_running: true, slack: Slack::None }
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
        let now = self.sleep.now();
        self.move_to(now, now.after(duration));
    }

    /// Lets it run until `deadline`, whether it ran or not.
    pub(super) fn run_until(&mut self, deadline: Instant) {
        let deadline = self.sleep.clock().nanos(deadline);
        self.move_to(self.sleep.now(), deadline);
    }

    fn move_to(&mut self, now: Nanos, deadline: Nanos) {
        let resolution = self.sleep.resolution();
        match self.slack.grid(resolution, Nanos(deadline.0.saturating_sub(now.0))) {
            Some(grid) => self.sleep.move_to_rounded(now, resolution.round_up(deadline, grid)),
            None => self.sleep.move_to(deadline),
        }
        self.is_running = true;
    }

    /// Lets each end be late, also that of the current run.
    pub(super) fn set_tolerance(&mut self, tolerance: Tolerance) {
        self.slack = Slack::new(tolerance, self.sleep.resolution());
        if self.is_running {
            self.move_to(self.sleep.now(), self.sleep.deadline_nanos());
        }
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
