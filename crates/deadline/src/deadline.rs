//! [`Deadline`]: the value that a request carries.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{fmt, iter};

use timingwheel::TimingWheel;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::ended::Ended;
use crate::run::Ear;

/// Deadlines of a [`TimingWheel`]. Import it to call its methods on a wheel.
///
/// By tokio's names a wheel of the current runtime is [`timingwheel::time::wheel()`].
pub trait DeadlineExt {
    /// A deadline `after` from now. [`Duration::MAX`] makes one without an instant, which only a cancel ends.
    ///
    /// Nothing is armed until a future [under it](Deadline::run) is pending. Never panics.
    fn deadline_in(&self, after: Duration) -> Deadline;

    /// A deadline at `instant`, as [`deadline_in`](Self::deadline_in).
    fn deadline_at(&self, instant: Instant) -> Deadline;
}

impl DeadlineExt for TimingWheel {
    fn deadline_in(&self, after: Duration) -> Deadline {
        Deadline::new(self, None, self.current_time().checked_add(after), Ended::Passed)
    }

    fn deadline_at(&self, instant: Instant) -> Deadline {
        Deadline::new(self, None, Some(instant), Ended::Passed)
    }
}

/// The time by which a request, or a part of it, has to end.
///
/// It is an instant that can be extended, a parent, and a cancellation token. A clone is the same deadline, and takes no
/// memory. A deadline ends once: when its instant or that of an ancestor passes, or when it or an ancestor is
/// [cancelled](Self::cancel). Each future that [runs](Self::run) under it ends then too. Dropping a deadline ends nothing;
/// a [`drop_guard`](Self::drop_guard) does.
///
/// # Precision
/// Never early, and as late as a [sleep of the wheel](timingwheel::TimingWheel#precision).
///
/// # A wheel that is full or has ended
/// A future under the deadline then waits by one of tokio's timers, as a [timeout](timingwheel::TimingWheel::timeout)
/// does. So a wheel that refuses a timer ends no request.
///
/// # Panics
/// Polling a future under a deadline panics if the wheel has refused the timer and tokio has no timers there: outside of a
/// runtime, or on one without `enable_time`. Nothing else here panics, unless a future of the caller's does.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use std::time::Duration;
/// use timingwheel::TimingWheel;
/// use timingwheel_deadline::{DeadlineExt, Ended};
///
/// let request = TimingWheel::new().deadline_in(Duration::from_secs(2));
/// let part = request.child_in(Duration::from_secs(5));
/// assert_eq!(part.remaining(), Some(Duration::from_secs(2)), "no longer than the request");
///
/// let work = tokio::spawn(part.run(std::future::pending::<()>()));
/// assert!(request.cancel());
/// assert_eq!(work.await.unwrap(), Err(Ended::Cancelled));
/// # }
/// ```
#[derive(Clone)]
pub struct Deadline(Arc<Inner>);

struct Inner {
    wheel: TimingWheel,
    parent: Option<Deadline>,
    /// A child of the parent's token.
    token: CancellationToken,
    /// Why what is under it ends as its time is up: [`Ended::Limit`] for that of a call.
    passed: Ended,
    state: Mutex<State>,
}

/// What changes. While the lock is held, nothing is dropped and nobody is woken.
pub(crate) struct State {
    /// `None` without a time of its own.
    instant: Option<Instant>,
    /// How it ended, as somebody saw it. It stays.
    end: Option<Ended>,
    /// Of a future that is over, for the next.
    pub(crate) ear: Option<Ear>,
}

impl State {
    fn is_due(&self, now: Instant) -> bool {
        self.instant.is_some_and(|instant| instant <= now)
    }
}

impl Drop for Inner {
    /// Not by recursion, which a long chain would take too deep.
    fn drop(&mut self) {
        let mut next = self.parent.take();
        while let Some(mut inner) = next.and_then(|parent| Arc::into_inner(parent.0)) {
            next = inner.parent.take();
        }
    }
}

impl Deadline {
    fn new(wheel: &TimingWheel, parent: Option<&Self>, instant: Option<Instant>, passed: Ended) -> Self {
        let token = parent.map_or_else(CancellationToken::new, |parent| parent.0.token.child_token());
        let state = Mutex::new(State { instant, end: None, ear: None });
        Self(Arc::new(Inner { wheel: wheel.clone(), parent: parent.cloned(), token, passed, state }))
    }

    /// A child, whose end is told as `passed` when its time is up.
    pub(crate) fn child_until(&self, instant: Option<Instant>, passed: Ended) -> Self {
        Self::new(&self.0.wheel, Some(self), instant, passed)
    }

    /// A deadline that ends with this one, and can be cancelled alone.
    #[must_use]
    pub fn child(&self) -> Self {
        self.child_until(None, Ended::Passed)
    }

    /// A deadline `after` from now, or with this one if that is earlier.
    #[must_use]
    pub fn child_in(&self, after: Duration) -> Self {
        self.child_until(self.0.wheel.current_time().checked_add(after), Ended::Passed)
    }

    /// A deadline at `instant`, or with this one if that is earlier.
    #[must_use]
    pub fn child_at(&self, instant: Instant) -> Self {
        self.child_until(Some(instant), Ended::Passed)
    }

    /// The instant at which it passes: the earliest of its own and its ancestors'. `None` if only a cancel ends it. A
    /// cancel does not change it.
    #[must_use]
    pub fn instant(&self) -> Option<Instant> {
        self.chain().filter_map(|it| it.state().instant).min()
    }

    /// The time that is left, zero if it has passed; `None` if only a cancel ends it.
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        self.instant().map(|instant| instant.saturating_duration_since(self.0.wheel.current_time()))
    }

    /// How it ended, if it has. The first answer stays. If the limit of a call and the time of its request are both up, the
    /// answer is [`Ended::Passed`]. A child whose time is up, and whose parent is cancelled before anybody looks, answers
    /// [`Ended::Cancelled`]. [`Deadline::run`] returns the same, unless its future is ready when it is polled.
    #[must_use]
    pub fn end(&self) -> Option<Ended> {
        let now = self.0.wheel.current_time();
        let mut end = self.0.token.is_cancelled().then_some(Ended::Cancelled);
        let mut due = None;
        for it in self.chain() {
            let state = it.state();
            if state.end.is_some() {
                end = state.end;
                break;
            }
            if state.is_due(now) {
                due = Some(it);
            }
        }
        // Also in the outermost that is due, of whose end the others hear from now on.
        let note = |it: &Self, end| *it.state().end.get_or_insert(end);
        let end = end.or_else(|| due.map(|it| note(it, it.0.passed)))?;
        Some(note(self, end))
    }

    /// Whether it has passed or was cancelled.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.end().is_some()
    }

    /// Moves it to `instant` if that is later, for a request that shows progress. Returns `false` if it has ended: then it
    /// stays so.
    ///
    /// An ancestor that is earlier still ends it. To end sooner, make a [child](Self::child_at), or [cancel](Self::cancel).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::time::Duration;
    /// use timingwheel::TimingWheel;
    /// use timingwheel_deadline::{DeadlineExt, Ended};
    /// use tokio::time::sleep;
    ///
    /// let second = Duration::from_secs(1);
    /// let download = TimingWheel::new().deadline_in(2 * second);
    /// for _part in 0..5 {
    ///     download.run(sleep(second)).await.unwrap();
    ///     assert!(download.extend(2 * second), "it goes on");
    /// }
    /// assert_eq!(download.run(sleep(3 * second)).await, Err(Ended::Passed));
    /// assert!(!download.extend(second), "it has ended");
    /// # }
    /// ```
    pub fn extend_to(&self, instant: Instant) -> bool {
        self.extend_until(Some(instant))
    }

    /// Moves it to `after` from now if that is later, as [`extend_to`](Self::extend_to).
    pub fn extend(&self, after: Duration) -> bool {
        self.extend_until(self.0.wheel.current_time().checked_add(after))
    }

    fn extend_until(&self, instant: Option<Instant>) -> bool {
        let has_ended = self.has_ended();
        let mut state = self.state();
        // By the time within the lock: what another thread has seen due, this one sees due too.
        let goes_on = !has_ended && state.end.is_none() && !state.is_due(self.0.wheel.current_time());
        if goes_on {
            state.instant = state.instant.zip(instant).map(|(own, later)| own.max(later));
        }
        goes_on
    }

    /// Ends it and its children now. Futures under them answer [`Ended::Cancelled`]. Returns whether this call ended it:
    /// `false` if it had ended before.
    pub fn cancel(&self) -> bool {
        let mut is_first = false;
        if self.end().is_none() {
            self.state().end.get_or_insert_with(|| {
                is_first = true;
                Ended::Cancelled
            });
        }
        // Also where time was up before: whoever has the token alone does not know that.
        self.0.token.cancel();
        is_first
    }

    /// The token of this deadline, for what takes a token. Cancelling it cancels the deadline, and the other way round.
    ///
    /// The token does not know the time: **it is not cancelled as the deadline passes.** Let the deadline [run](Self::run)
    /// what has the token, or wait for [`ended`](Self::ended).
    #[must_use]
    pub fn token(&self) -> &CancellationToken {
        &self.0.token
    }

    /// Cancels the deadline when it is dropped: for tasks that should not outlive the one that spawned them.
    pub fn drop_guard(&self) -> DropGuard {
        self.0.token.clone().drop_guard()
    }

    pub(crate) fn wheel(&self) -> &TimingWheel {
        &self.0.wheel
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This one and its ancestors.
    fn chain(&self) -> impl Iterator<Item = &Self> {
        iter::successors(Some(self), |it| it.0.parent.as_ref())
    }
}

impl fmt::Debug for Deadline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.end(), self.remaining()) {
            (Some(end), _) => write!(f, "Deadline({end:?})"),
            (None, Some(left)) => write!(f, "Deadline({left:?} left)"),
            (None, None) => f.write_str("Deadline(no limit)"),
        }
    }
}
