//! What a schedule moves its job's pending run with.

use std::fmt;
use std::sync::{Arc, Weak};

use tokio::time::Instant;

/// The run that a repeating job waits for, from [`Schedule::attach`](super::Schedule::attach).
///
/// It does not keep the job alive. A clone stands for the same run.
#[derive(Clone)]
pub struct PendingRun(Weak<dyn Movable>);

/// A job, as its schedule changes it.
pub(super) trait Movable: Send + Sync {
    fn move_run(self: Arc<Self>, deadline: Instant) -> bool;
    fn replan(self: Arc<Self>, next: Option<Instant>) -> Replanned;
    fn end_schedule(self: Arc<Self>) -> bool;
}

impl PendingRun {
    pub(super) fn of<J: Movable + 'static>(job: &Arc<J>) -> Self {
        let job: Arc<dyn Movable> = job.clone();
        Self(Arc::downgrade(&job))
    }

    /// Moves the run to `deadline` and returns whether the job now waits for it. During a run, when the job is over, and
    /// before it has been added, as within [`attach`](super::Schedule::attach), there is no run to move.
    ///
    /// The schedule is not asked now. When the moved run has ended, the schedule goes on from the new time. A run that the
    /// job's user has moved is moved all the same; [`replan`](Self::replan) leaves it alone.
    pub fn reset(&self, deadline: Instant) -> bool {
        self.0.upgrade().is_some_and(|job| job.move_run(deadline))
    }

    /// Changes the schedule's last answer to `next`: moves the run there, or ends the job if `next` is `None`, unless the
    /// job's user has moved the run. Returns what has become of it.
    ///
    /// A user moves a run by [`Repeating::reset`](super::Repeating::reset), [`Jobs::reset`](super::Jobs::reset), or their
    /// forms that take a duration, before the run or during the one before it. Such a run is the user's until it begins,
    /// unless [`reset`](Self::reset) moves it, or the job gets another schedule. Whoever comes first, no reset of the
    /// user's is lost: the look and the move are one step.
    ///
    /// # Panics
    /// If this ends the job, and dropping what the job runs or its schedule panics.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::sync::{Arc, OnceLock};
    /// use std::time::Duration;
    /// use timingwheel::TimingWheel;
    /// use timingwheel::job::{PendingRun, Previous, Replanned, Schedule};
    /// use tokio::time::Instant;
    ///
    /// /// Every hour, until it learns something else.
    /// struct Hourly(Arc<OnceLock<PendingRun>>);
    ///
    /// impl Schedule for Hourly {
    ///     fn next(&mut self, previous: Previous) -> Option<Instant> {
    ///         Some(previous.ended + Duration::from_secs(3_600))
    ///     }
    ///
    ///     fn attach(&mut self, run: PendingRun) {
    ///         _ = self.0.set(run);
    ///     }
    /// }
    ///
    /// let attached = Arc::new(OnceLock::new());
    /// let job = TimingWheel::new().run_by(Hourly(attached.clone()), || async {});
    /// let run = attached.get().unwrap();
    ///
    /// let soon = Instant::now() + Duration::from_secs(60);
    /// assert_eq!(run.replan(Some(soon)), Replanned::Done);
    /// assert_eq!(job.due(), Some(soon));
    ///
    /// // The user moves the run.
    /// let sooner = Instant::now() + Duration::from_secs(5);
    /// assert!(job.reset(sooner));
    /// assert_eq!(run.replan(Some(soon)), Replanned::MovedByUser);
    /// assert_eq!(job.due(), Some(sooner));
    /// # }
    /// ```
    pub fn replan(&self, next: Option<Instant>) -> Replanned {
        self.0.upgrade().map_or(Replanned::NotPending, |job| job.replan(next))
    }

    /// Ends the job as if its schedule had no further run, and returns whether that was in time: not if the job is over, nor
    /// before it has been added. A run that is going on is the last. This ends the job also if its user has moved the next
    /// run; [`replan`](Self::replan) does not.
    pub fn end(&self) -> bool {
        self.0.upgrade().is_some_and(Movable::end_schedule)
    }
}

impl fmt::Debug for PendingRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingRun").finish_non_exhaustive()
    }
}

/// What has become of a [`PendingRun::replan`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Replanned {
    /// The job waits for the new instant, or is over as there is none.
    Done,
    /// The job's user has moved the run. It stays where it is.
    MovedByUser,
    /// Nothing has changed, as there is no run to move: one is going on or about to begin, the job is over, or it has not
    /// been added yet.
    NotPending,
}
