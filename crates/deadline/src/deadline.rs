//! [`Deadline`]: the value that a request carries.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
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
    /// Of a future that is over, for the next.
    ear: Mutex<Option<Ear>>,
    /// Why what is under it ends as its time is up: [`Ended::Limit`] for that of a call.
    passed: Ended,
    /// `None` without a time of its own.
    first: Option<Instant>,
    /// How much later than `first` it passes, in nanoseconds, and in the [lowest bits](END) how it ended. In one word, so
    /// that nobody extends a deadline that another thread has seen ended.
    word: AtomicU64,
}

/// The bits that tell how a deadline ended: none of them is set while it goes on.
const END: u64 = 3;
/// What these bits say. The number of an end is one more than that of its variant.
const ENDS: [Option<Ended>; 4] = [None, Some(Ended::Passed), Some(Ended::Limit), Some(Ended::Cancelled)];
/// A time that never comes; 146 years.
const NEVER: u64 = u64::MAX >> 2;

/// How it ended, by its `word`.
fn noted(word: u64) -> Option<Ended> {
    ENDS[(word & END) as usize]
}

impl Inner {
    /// When it passes, by its `word`.
    fn instant(&self, word: u64) -> Option<Instant> {
        let first = self.first.filter(|_| word >> 2 < NEVER)?;
        Some(first + Duration::from_nanos(word >> 2))
    }

    /// Notes `end`, unless one is noted or it is not due. Returns whether this call did, and what is noted by now.
    fn close(&self, end: Ended, is_due: impl Fn(u64) -> bool) -> (bool, Option<Ended>) {
        let closed = self.word.fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| {
            (word & END == 0 && is_due(word)).then_some(word | (end as u64 + 1))
        });
        (closed.is_ok(), closed.map_or_else(noted, |_| Some(end)))
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
        Self(Arc::new(Inner {
            wheel: wheel.clone(),
            parent: parent.cloned(),
            token: parent.map_or_else(CancellationToken::new, |parent| parent.0.token.child_token()),
            ear: Mutex::new(None),
            passed,
            first: instant,
            word: AtomicU64::new(0),
        }))
    }

    /// A deadline that ends with this one, and can be cancelled alone.
    #[must_use]
    pub fn child(&self) -> Self {
        Self::new(&self.0.wheel, Some(self), None, Ended::Passed)
    }

    /// A deadline `after` from now, or with this one if that is earlier.
    #[must_use]
    pub fn child_in(&self, after: Duration) -> Self {
        let instant = self.0.wheel.current_time().checked_add(after);
        Self::new(&self.0.wheel, Some(self), instant, Ended::Passed)
    }

    /// A deadline at `instant`, or with this one if that is earlier.
    #[must_use]
    pub fn child_at(&self, instant: Instant) -> Self {
        Self::new(&self.0.wheel, Some(self), Some(instant), Ended::Passed)
    }

    /// A child that passes at the limit of a call.
    pub(crate) fn limit_at(&self, instant: Instant) -> Self {
        Self::new(&self.0.wheel, Some(self), Some(instant), Ended::Limit)
    }

    /// The instant at which it passes: the earliest of its own and its ancestors'. `None` if only a cancel ends it. A
    /// cancel does not change it.
    #[must_use]
    pub fn instant(&self) -> Option<Instant> {
        self.chain().filter_map(|it| it.0.instant(it.word())).min()
    }

    /// The time that is left, zero if it has passed; `None` if only a cancel ends it.
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        self.instant().map(|instant| instant.saturating_duration_since(self.0.wheel.current_time()))
    }

    /// How it ended, if it has. The first answer stays. If the limit of a call and the time of its request are both up, the
    /// answer is [`Ended::Passed`]. [`Deadline::run`] returns the same, unless its future is ready when it is polled.
    #[must_use]
    pub fn end(&self) -> Option<Ended> {
        let noted = self.chain().find_map(|it| noted(it.word()));
        let cancelled = || self.0.token.is_cancelled().then_some(Ended::Cancelled);
        let passed = || {
            let now = self.0.wheel.current_time();
            let is_due = |it: &&Self, word| it.0.instant(word).is_some_and(|at| at <= now);
            let end = self.chain().filter(|it| is_due(it, it.word())).last()?.0.passed;
            self.chain().filter_map(|it| it.0.close(end, |word| is_due(&it, word)).1).last()
        };
        // Also where an ancestor's is noted, so that this one's does not change.
        noted.or_else(cancelled).or_else(passed).and_then(|end| self.0.close(end, |_| true).1)
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
        let Inner { wheel, first: Some(first), word, .. } = &*self.0 else { return !self.has_ended() };
        let later = instant.map_or(NEVER, |instant| {
            let later = instant.saturating_duration_since(*first).as_nanos();
            u64::try_from(later).map_or(NEVER, |later| later.min(NEVER))
        });
        let now = wheel.current_time();
        let goes_on = |word| word & END == 0 && self.0.instant(word).is_none_or(|at| at > now);
        let extend = |word| goes_on(word).then(|| word.max(later << 2));
        !self.has_ended() && word.fetch_update(Ordering::AcqRel, Ordering::Acquire, extend).is_ok()
    }

    /// Ends it and its children now. Futures under them answer [`Ended::Cancelled`]. Returns whether this call ended it:
    /// `false` if it had ended before.
    pub fn cancel(&self) -> bool {
        let is_first = self.end().is_none() && self.0.close(Ended::Cancelled, |_| true).0;
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

    /// Where a future that is over leaves its ear. Nobody waits for the lock.
    pub(crate) fn ear(&self) -> &Mutex<Option<Ear>> {
        &self.0.ear
    }

    pub(crate) fn wheel(&self) -> &TimingWheel {
        &self.0.wheel
    }

    fn word(&self) -> u64 {
        self.0.word.load(Ordering::Acquire)
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
