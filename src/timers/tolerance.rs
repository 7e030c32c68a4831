//! Sleeps that may be late, so that they fire together.

use std::time::Duration;

use crate::timers::sleep::Sleep;

impl Sleep {
    /// Lets this be late by less than `tolerance`, so that it fires together with others and costs less among very many.
    ///
    /// The deadline is rounded up to the next of the points that lie 2, 4, 8 and so on ticks apart, on the widest grid that
    /// is not wider than the tolerance. All timers share these points, so timers that are due at about the same time fire
    /// in one turn of the wheel. Use it for very many timers of some seconds or more that seldom fire, such as those of
    /// idle connections.
    ///
    /// [`deadline`](Self::deadline) then returns the rounded instant. [`reset`](Self::reset) and
    /// [`reset_after`](Self::reset_after) keep the tolerance. A tolerance of less than two ticks is none, so a tolerance of
    /// zero ends it. A deadline that has passed stays as it is.
    ///
    /// # Precision
    /// Never early. Late by less than the tolerance plus the machine's wake-up time, or by as much as a timer without a
    /// tolerance ([precision](crate::TimingWheel#precision)), whichever is more. On average it is half of the grid late. At
    /// a tick of 1 ms, a tolerance of 1,024 ms has a grid of 1,024 ms. One of 1 s has a grid of 512 ms, and wakes a process
    /// twice as often.
    ///
    /// On a wheel with 32 slots or more, a timer whose tolerance is a seventh of its delay or more stays in one place until
    /// it fires or is reset. With an eighth, it moves once at most. With less, it may move as often as a timer without a
    /// tolerance. The [statistics](crate::Stats::lateness) count lateness from the rounded deadline.
    ///
    /// # Panics
    /// As [`time::sleep`](crate::time::sleep), for a sleep that is made there. A sleep of a wheel never panics.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::time::Duration;
    /// use timingwheel::TimingWheel;
    /// use tokio::time::Instant;
    ///
    /// let wheel = TimingWheel::new();
    /// let minute = Duration::from_secs(60);
    /// let exact = Instant::now() + minute;
    /// let sleep = wheel.sleep(minute).with_tolerance(minute / 8);
    /// assert!((exact..exact + minute / 8).contains(&sleep.deadline()));
    /// # }
    /// ```
    #[track_caller]
    pub fn with_tolerance(mut self, tolerance: Duration) -> Self {
        let (deadline, has_elapsed) = (self.deadline_nanos(), self.is_elapsed());
        let now = self.now_on_wheel();
        self.set_tolerance(tolerance);
        if !has_elapsed {
            self.move_to(deadline, Some(now));
        }
        self
    }
}
