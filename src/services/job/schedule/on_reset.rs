//! Runs that are asked for one by one.

use std::time::Duration;

use tokio::time::Instant;

use super::{Previous, Schedule};
use crate::platform::clock::LONGEST;

/// No run by itself: each run is the one that a [`reset`](crate::job::Repeating::reset) asks for.
///
/// So each reset arms the job again: before a run, during it, or after it, as `Timer.Reset` does for the timers of Go's
/// `AfterFunc`. The job has one timer. A reset moves the run that was asked for before, if that run has not begun. The
/// job is over when it is [cancelled](crate::job::Repeating::cancel).
///
/// Between its runs the job is pending, with a due time 30 years away.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use std::time::Duration;
/// use timingwheel::TimingWheel;
/// use timingwheel::job::OnReset;
/// use tokio::sync::mpsc;
///
/// let wheel = TimingWheel::new();
/// let (sender, mut alarms) = mpsc::unbounded_channel();
/// let alarm = wheel.run_by(OnReset::after(Duration::from_secs(60)), move || {
///     let _ = sender.send("no beat for a minute");
///     async {}
/// });
/// assert!(alarms.recv().await.is_some());
/// // It has fired. The next beat arms it again.
/// assert!(alarm.reset_after(Duration::from_secs(60)));
/// assert!(alarms.recv().await.is_some());
/// assert!(alarm.cancel());
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct OnReset {
    first: Option<Duration>,
}

impl OnReset {
    /// No run before the first reset.
    ///
    /// # Panics
    /// Never.
    #[must_use]
    pub const fn new() -> Self {
        Self { first: None }
    }

    /// The first run after `delay`, or at the reset that comes first. A delay of more than 30 years is 30 years.
    ///
    /// # Panics
    /// Never.
    #[must_use]
    pub const fn after(delay: Duration) -> Self {
        Self { first: Some(delay) }
    }
}

impl Schedule for OnReset {
    fn next(&mut self, previous: Previous) -> Option<Instant> {
        Some(previous.ended + self.first.take().unwrap_or(LONGEST).min(LONGEST))
    }
}
