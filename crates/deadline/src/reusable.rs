//! [`ReusableDeadline`]: for a connection that has one operation at a time.

use std::fmt;
use std::time::Duration;

use timingwheel::TimingWheel;
use tokio::time::Instant;

use crate::Deadline;
use crate::deadline::instant_in;
use crate::tree::Handle;

/// Makes one deadline after the other, for the operations of a connection, with one timer that stays armed between them.
///
/// If nothing refers to the last deadline any more, the next one takes over its memory and its timer. Otherwise the
/// next one is made as by [`DeadlineExt::deadline_in`](crate::DeadlineExt::deadline_in). A later deadline does not move
/// the timer: the timer fires at the old time, finds that nothing is due, and is armed anew if an operation waits. So a
/// thousand operations a second, each with a limit of a second, take a lock of the wheel and allocate only about once a
/// second.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use std::time::Duration;
/// use timingwheel::TimingWheel;
/// use timingwheel_deadline::{Ended, ReusableDeadline};
/// use tokio::time::sleep;
///
/// let mut operations = ReusableDeadline::new(&TimingWheel::new());
/// for _ in 0..3 {
///     let deadline = operations.deadline_in(Duration::from_secs(2));
///     assert!(deadline.run(sleep(Duration::from_millis(1500))).await.is_ok());
/// }
/// let deadline = operations.deadline_in(Duration::from_secs(2));
/// assert_eq!(deadline.run(sleep(Duration::from_secs(3))).await, Err(Ended::Passed));
/// # }
/// ```
pub struct ReusableDeadline {
    wheel: TimingWheel,
    last: Option<Handle>,
}

impl ReusableDeadline {
    /// On `wheel`. Nothing is armed until an operation is pending.
    #[must_use]
    pub fn new(wheel: &TimingWheel) -> Self {
        Self { wheel: wheel.clone(), last: None }
    }

    /// A deadline `after` from now, for the next operation.
    pub fn deadline_in(&mut self, after: Duration) -> Deadline {
        self.deadline_at(instant_in(&self.wheel, after))
    }

    /// A deadline at `instant`, for the next operation.
    pub fn deadline_at(&mut self, instant: Instant) -> Deadline {
        let is_renewed = self.last.as_ref().is_some_and(|last| last.renew(instant));
        if !is_renewed {
            self.last = Some(Handle::root(&self.wheel, instant));
        }
        Deadline::from(self.last.clone().expect("one was made"))
    }
}

impl fmt::Debug for ReusableDeadline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReusableDeadline").field("wheel", &self.wheel).finish_non_exhaustive()
    }
}
