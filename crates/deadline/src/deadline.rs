//! [`Deadline`]: the value that a request carries.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::{fmt, mem};

use tokio::time::Instant;

use crate::ended::Ended;
use crate::run::{Passed, Run};
use crate::stats::DeadlineCounters;
use crate::sync::TimingWheel;
use crate::tree::{Limit, Node, Place, Tree, chain, instant_in};

/// Deadlines of a [`TimingWheel`]. Import it to call its methods on a wheel.
///
/// By tokio's names a wheel of the current runtime is [`timingwheel::time::wheel()`].
pub trait DeadlineExt {
    /// A deadline `after` from now. With more than [292 years](timingwheel::Sleep::deadline) it never passes, and can be
    /// cancelled all the same.
    ///
    /// Nothing is armed until a future [under it](Deadline::run) is pending. Never panics.
    fn deadline_in(&self, after: Duration) -> Deadline;

    /// A deadline at `instant`, as [`deadline_in`](Self::deadline_in).
    fn deadline_at(&self, instant: Instant) -> Deadline;
}

impl DeadlineExt for TimingWheel {
    fn deadline_in(&self, after: Duration) -> Deadline {
        self.deadline_at(instant_in(self, after))
    }

    fn deadline_at(&self, instant: Instant) -> Deadline {
        Deadline::root(self, instant, None)
    }
}

/// The time by which a request, or a part of it, has to end.
///
/// A clone is the same deadline, and takes no memory: it counts references. A deadline ends once, when its instant or that of an ancestor
/// passes, or when it or an ancestor is [cancelled](Self::cancel). What runs under it ends then too. Dropping all clones
/// ends nothing.
///
/// # Precision
/// Never early, and as late as a [sleep of the wheel](timingwheel::TimingWheel#precision).
///
/// # A wheel that is full or has ended
/// A deadline ends nothing before its time, whatever its wheel does. If the wheel refuses the timer, each future under the
/// deadline waits by a timer of its own, as a [timeout](timingwheel::TimingWheel::timeout) does: by one of tokio's, with
/// tokio's precision, which is not counted as pending, unless the wheel has room again by then. Each future asks the wheel
/// again when it is polled, also because the deadline was [moved](Self::reset). Cancelling works as ever.
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
/// assert_eq!(part.remaining(), Duration::from_secs(2), "no longer than the request");
///
/// let work = tokio::spawn(async move { part.run(std::future::pending::<()>()).await });
/// request.cancel();
/// assert_eq!(work.await.unwrap(), Err(Ended::Cancelled));
/// # }
/// ```
pub struct Deadline {
    pub(crate) tree: Arc<Tree>,
    /// `None` for the root.
    child: Option<Arc<Child>>,
}

/// A child's place in its tree, for as long as the child, one of its own or a future refers to it.
struct Child {
    index: usize,
    parent: Deadline,
}

impl Clone for Deadline {
    fn clone(&self) -> Self {
        self.tree.deadlines.fetch_add(1, Ordering::Relaxed);
        Self { tree: self.tree.clone(), child: self.child.clone() }
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        // The wakers of tasks that were first here are dropped last, without the lock: that may panic.
        let mut firsts = Vec::new();
        // Not by recursion, which a long chain would take too deep.
        let mut next = self.child.take();
        while let Some(mut child) = next.and_then(Arc::into_inner) {
            let mut state = self.tree.lock();
            state.children.remove(child.index);
            if state.first.node == Some(child.index) {
                firsts.push(mem::take(&mut state.first));
                drop(self.tree.tend(state, None));
            } else {
                drop(state);
            }
            next = child.parent.child.take();
        }
        // The lock orders all else.
        if self.tree.deadlines.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.tree.close();
        }
    }
}

impl Deadline {
    pub(crate) fn root(wheel: &TimingWheel, instant: Instant, counters: Option<&DeadlineCounters>) -> Self {
        Self { tree: Tree::new(wheel, instant, counters), child: None }
    }

    #[inline]
    pub(crate) fn place(&self) -> Place {
        self.child.as_ref().map(|child| child.index)
    }

    /// A deadline that ends with this one, and can be cancelled or moved alone.
    #[must_use]
    pub fn child(&self) -> Self {
        self.child_in(Duration::MAX)
    }

    /// A deadline `after` from now, or with this one if that is earlier.
    #[must_use]
    pub fn child_in(&self, after: Duration) -> Self {
        self.child_at(instant_in(&self.tree.wheel, after))
    }

    /// A deadline at `instant`, or with this one if that is earlier.
    #[must_use]
    pub fn child_at(&self, instant: Instant) -> Self {
        let node = Node { parent: self.place(), at: instant, end: None };
        let child = Child { index: self.tree.lock().children.insert(node), parent: self.clone() };
        let mut deadline = self.clone();
        deadline.child = Some(Arc::new(child));
        deadline
    }

    /// The instant at which it passes: the earliest of its own and its ancestors'. A cancel does not change it.
    #[must_use]
    pub fn instant(&self) -> Instant {
        self.tree.lock().ends(self.place(), Limit::None, None).0
    }

    /// The time that is left; zero if it has passed.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.instant().saturating_duration_since(self.tree.wheel.current_time())
    }

    /// Whether its instant has come, by the wheel's clock.
    #[must_use]
    pub fn has_passed(&self) -> bool {
        self.remaining().is_zero()
    }

    /// Whether it has passed or was cancelled. [`Deadline::run`] then answers with an error, unless its future is ready
    /// at the first poll.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.end().is_some()
    }

    /// Moves it to `instant`, for a request that shows progress or needs to end sooner. Returns whether it was moved: a
    /// deadline that has ended stays so.
    ///
    /// An ancestor that is earlier still ends it. An instant that has come ends it now.
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
    ///     assert!(download.reset_after(2 * second), "it goes on");
    /// }
    /// assert_eq!(download.run(sleep(3 * second)).await, Err(Ended::Passed));
    /// assert!(!download.reset_after(second), "it has ended");
    /// # }
    /// ```
    pub fn reset(&self, instant: Instant) -> bool {
        let mut state = self.tree.lock();
        let now = self.tree.wheel.current_time();
        let is_moved = state.ends(self.place(), Limit::None, Some(now)).1.is_none();
        if is_moved {
            state.node_mut(self.place()).at = instant;
            // Those that would wait for too long, or that keep their own time.
            self.tree.wake_below(self.place(), state, |at| at.is_none_or(|at| at > instant));
        }
        is_moved
    }

    /// Moves it to `after` from now, as [`reset`](Self::reset).
    pub fn reset_after(&self, after: Duration) -> bool {
        self.reset(instant_in(&self.tree.wheel, after))
    }

    /// Ends it and its children now. Futures under them answer [`Ended::Cancelled`]. Does nothing if it has ended.
    pub fn cancel(&self) {
        let mut state = self.tree.lock();
        let now = self.tree.wheel.current_time();
        if state.ends(self.place(), Limit::None, Some(now)).1.is_none() {
            state.node_mut(self.place()).end = Some((Ended::Cancelled, now));
            if let Some(used) = &self.tree.used {
                used.ended(Ended::Cancelled, chain(&state.children, self.place()).count() - 1);
            }
            self.tree.wake_below(self.place(), state, |_| true);
        }
    }

    /// Runs `future` until the deadline ends, and answers as a timeout does.
    ///
    /// The future is polled first, so an answer that is there comes before the end. A task of its own takes a clone along:
    /// `tokio::spawn(async move { deadline.run(future).await })`.
    ///
    /// # Cancel safety
    /// Dropping it drops `future`, and leaves the deadline as it is.
    ///
    /// # Errors
    /// [`Ended`], if the deadline ended first.
    ///
    /// # Panics
    /// As [above](Self#panics).
    pub fn run<F: IntoFuture>(&self, future: F) -> Run<F::IntoFuture, Passed<'_>> {
        Run { passed: self.passed(), future: future.into_future() }
    }

    /// Runs `future` until the deadline ends, or for `limit` if that is shorter: use it for each call that a request makes.
    /// It has no timer of its own: see [the costs](crate#what-it-costs).
    ///
    /// The limit begins when `future` is first found pending. So a future that is ready at once costs nothing, not even
    /// a look at the clock.
    ///
    /// # Cancel safety
    /// As [`run`](Self::run).
    ///
    /// # Errors
    /// As [`run`](Self::run). [`Ended::Passed`] if the limit came first: [`has_ended`](Self::has_ended) tells which.
    ///
    /// # Panics
    /// As [above](Self#panics).
    pub fn run_in<F: IntoFuture>(&self, limit: Duration, future: F) -> Run<F::IntoFuture, Passed<'_>> {
        Run { passed: Passed::new(self, Limit::After(limit)), future: future.into_future() }
    }

    /// Waits for its end, for a `select!`. Answers why it ended.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::time::Duration;
    /// use timingwheel::TimingWheel;
    /// use timingwheel_deadline::{DeadlineExt, Ended};
    /// use tokio::{select, sync::mpsc};
    ///
    /// let deadline = TimingWheel::new().deadline_in(Duration::from_secs(2));
    /// let (sender, mut parts) = mpsc::channel(8);
    /// sender.send("first").await.unwrap();
    /// let mut found = Vec::new();
    /// let end = loop {
    ///     select! {
    ///         Some(part) = parts.recv() => found.push(part),
    ///         end = deadline.passed() => break end,
    ///     }
    /// };
    /// assert_eq!((found, end), (vec!["first"], Ended::Passed), "what has come in time");
    /// # }
    /// ```
    ///
    /// # Cancel safety
    /// Dropping it loses nothing.
    ///
    /// # Panics
    /// As [above](Self#panics).
    pub fn passed(&self) -> Passed<'_> {
        Passed::new(self, Limit::None)
    }

    /// How it ended, if it has.
    pub(crate) fn end(&self) -> Option<Ended> {
        self.tree.lock().ends(self.place(), Limit::None, Some(self.tree.wheel.current_time())).1
    }
}

impl fmt::Debug for Deadline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.end() {
            None => write!(f, "Deadline({:?} left)", self.remaining()),
            Some(end) => write!(f, "Deadline({end:?})"),
        }
    }
}
