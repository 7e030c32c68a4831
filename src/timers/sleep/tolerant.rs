//! Sleeps that may be late.

use std::pin::Pin;
use std::time::Duration;

use tokio::time::Instant;

use super::{Sleep, State};
use crate::timers::tolerance::{Slack, Tolerance};
use crate::wheel::{Nanos, Resolution};

impl Sleep {
    /// Lets this be late, so that it fires together with others and costs less among very many: see [`Tolerance`].
    ///
    /// A share is a part of the time that is left. That time counts from now. If this follows
    /// [`sleep`](crate::TimingWheel::sleep) on a multi-thread runtime, it counts from when the sleep was made. A second
    /// call counts from the deadline to which the first one rounded. [`deadline`](Self::deadline) then tells the
    /// instant to which the deadline was rounded up, at which this is ready. [`reset`](Self::reset) and
    /// [`reset_after`](Self::reset_after) keep the tolerance, as a time. A tolerance of zero ends it. A deadline that
    /// has passed stays as it is.
    ///
    /// # Precision
    /// Never early. Late by less than the tolerance plus the machine's wake-up time, or by as much as a timer without a
    /// tolerance ([precision](crate::TimingWheel#precision)), whichever is more.
    ///
    /// # Panics
    /// Never.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::time::Duration;
    /// use timingwheel::{TimingWheel, Tolerance};
    /// use tokio::time::Instant;
    ///
    /// let wheel = TimingWheel::new();
    /// let minute = Duration::from_secs(60);
    /// let exact = Instant::now() + minute;
    /// let sleep = wheel.sleep(minute).with_tolerance(Tolerance::time(Duration::from_secs(5)));
    /// assert!(sleep.deadline() >= exact);
    /// assert!(sleep.deadline() < exact + Duration::from_secs(5));
    /// # }
    /// ```
    pub fn with_tolerance(mut self, tolerance: Tolerance) -> Self {
        let now = match self.state.unpack() {
            State::MadeAt(now) => now,
            _ => self.now(),
        };
        self.move_within(now, self.deadline, tolerance);
        self
    }

    /// Moves the deadline as [`reset`](Self::reset) does, but with another tolerance than before. A share is a part of
    /// the time from now until `deadline`. Later resets keep the tolerance.
    ///
    /// Moved later, a timer that had a tolerance before stays where it is in the wheel until that place comes up.
    pub fn reset_with_tolerance(self: Pin<&mut Self>, deadline: Instant, tolerance: Tolerance) {
        let (now, deadline) = (self.now(), self.shard.clock().nanos(deadline));
        self.get_mut().move_within(now, deadline, tolerance);
    }

    /// Moves the deadline to `after` from now, as [`reset_with_tolerance`](Self::reset_with_tolerance) does.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::{pin::pin, time::Duration};
    /// use timingwheel::{TimingWheel, Tolerance};
    /// use tokio::{select, sync::mpsc};
    ///
    /// const IDLE: Duration = Duration::from_secs(60);
    /// let eighth = Tolerance::share(0.125);
    ///
    /// let (sender, mut messages) = mpsc::channel(8);
    /// sender.send("hello").await.unwrap();
    /// let mut idle = pin!(TimingWheel::new().sleep(IDLE).with_tolerance(eighth));
    /// loop {
    ///     select! {
    ///         Some(_message) = messages.recv() => idle.as_mut().reset_after_with_tolerance(IDLE, eighth),
    ///         () = idle.as_mut() => break, // Nothing for a minute, or a few seconds more.
    ///     }
    /// }
    /// # }
    /// ```
    pub fn reset_after_with_tolerance(self: Pin<&mut Self>, after: Duration, tolerance: Tolerance) {
        let now = self.now();
        self.get_mut().move_within(now, now.after(after), tolerance);
    }

    fn move_within(&mut self, now: Nanos, deadline: Nanos, tolerance: Tolerance) {
        let delay = Nanos(deadline.0.saturating_sub(now.0));
        let grid = Slack::new(tolerance, self.resolution()).grid_for_more(self.resolution(), delay);
        self.state.set_grid(grid);
        if deadline == self.deadline && (grid.is_none() || deadline <= now) {
            // It stays as it is, also if it has come.
        } else if grid.is_some() {
            self.move_to_grid(now, deadline);
        } else {
            self.move_exactly_at(now, deadline);
        }
    }

    /// Sets the tolerance of later deadlines.
    pub(crate) fn set_tolerance(&mut self, tolerance: Tolerance) {
        let resolution = self.resolution();
        self.state.set_grid(Slack::new(tolerance, resolution).grid_for_more(resolution, Nanos::ZERO));
    }

    /// Moves to a deadline on the grid of the tolerance, or to one that has passed.
    #[inline(never)]
    pub(super) fn move_to_grid(&mut self, now: Nanos, deadline: Nanos) {
        match self.state.grid() {
            Some(grid) if deadline > now => {
                self.move_to_rounded(now, self.resolution().round_up(deadline, grid));
            }
            _ => self.move_exactly_at(now, deadline),
        }
    }

    /// Moves to a deadline that was rounded up, for a caller who has just looked at the clock.
    pub(crate) fn move_to_rounded(&mut self, now: Nanos, to: Nanos) {
        if to <= now {
            return self.move_exactly_at(now, to);
        }
        self.deadline = to;
        let waits = match self.state.unpack() {
            State::Registered { key, .. } => match self.shard.reschedule_rounded(key, to) {
                Ok(()) => return,
                Err(waits) => waits,
            },
            _ => None,
        };
        self.state.set(State::RoundedAt(now));
        // Last, as it may panic. Who waited registers at its next poll.
        if let Some(waker) = waits {
            waker.wake();
        }
    }

    /// How the wheel's ticks lie.
    pub(crate) fn resolution(&self) -> Resolution {
        self.shard.resolution()
    }
}
