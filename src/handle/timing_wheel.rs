//! The handle.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Handle, Id};

use crate::engine::alarm::Alarm;
use crate::engine::driver::Shards;
use crate::engine::shard::Shard;
use crate::platform::placement::shard_of_this_thread;
use crate::telemetry::stats::Stats;
use crate::wheel::tick::Nanos;

/// With two slots each, so many reach from the shortest tick to the last.
const MAX_LEVELS: usize = 64;

/// A hierarchical timing wheel on a tokio runtime: the handle from which timers are made.
///
/// Cloning is cheap, and clones are the same wheel. The runtime where it was made turns it; timers may be made and
/// awaited on any thread, in any runtime or executor. They fire while that runtime is run: a current-thread one does
/// nothing as long as nobody is in its `block_on`. Its wheels then fire nothing, on other threads neither, and only
/// [`Stats::overdue`] tells. The driver ends, and with it the wheel, when
///
/// - the last handle and the last future of the wheel are gone: as a rule at once; if two threads drop them in the
///   same moment it may take a second or more, or
/// - [`shutdown`](Self::shutdown) is called, or
/// - the runtime is shut down.
///
/// # Precision
///
/// A timer never fires early. It fires late by less than a [tick](crate::Builder::tick), plus what tokio's own timers
/// would be late by on the same runtime.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use std::time::Duration;
/// use timingwheel::TimingWheel;
///
/// let wheel = TimingWheel::new();
/// wheel.sleep(Duration::from_millis(5)).await;
/// let answer = wheel.timeout(Duration::from_secs(1), async { 42 }).await;
/// assert_eq!(answer, Ok(42));
/// # }
/// ```
#[derive(Clone)]
pub struct TimingWheel {
    wheel: Arc<Wheel>,
}

struct Wheel {
    shards: Box<[Arc<Shard>]>,
    driven: Arc<Shards>,
    alarm: Arc<Alarm>,
    /// The driver's. Not its handle, which would keep its files open.
    runtime: Option<Id>,
}

/// The last handle goes.
impl Drop for Wheel {
    fn drop(&mut self) {
        self.alarm.orphan();
        drop(std::mem::take(&mut self.shards));
        self.alarm.wake_to_end();
    }
}

impl TimingWheel {
    pub(crate) fn from_parts(
        shards: Box<[Arc<Shard>]>,
        driven: Arc<Shards>,
        alarm: Arc<Alarm>,
        runtime: Option<Id>,
    ) -> Self {
        Self { wheel: Arc::new(Wheel { shards, driven, alarm, runtime }) }
    }

    /// What the wheel is called in [metrics and events](crate::monitor): as [`Builder::name`](crate::Builder::name)
    /// says, or by a number.
    #[must_use]
    pub fn name(&self) -> &str {
        self.wheel.alarm.notes().name()
    }

    /// How many timers are registered, and neither due nor dropped since. A future registers its timer when it is first
    /// polled; with a [bound](crate::Builder::max_pending) the `try_` methods do so at once. A [job](crate::job) counts
    /// from the call that makes it.
    ///
    /// Locks each shard for a moment, one after the other.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.wheel.shards.iter().map(|shard| shard.pending()).sum()
    }

    /// How long a [tick](crate::Builder::tick) is.
    #[must_use]
    pub fn tick(&self) -> Duration {
        self.shard().resolution().tick()
    }

    /// The [bound](crate::Builder::max_pending) on pending timers, if there is one.
    #[must_use]
    pub fn max_pending(&self) -> Option<usize> {
        self.shard().max_pending()
    }

    /// Counts of what the wheel has done so far, and how it does; see [`monitor`](crate::monitor).
    ///
    /// Locks each shard for a moment, one after the other: no longer than the driver does to fire some hundred timers.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let Wheel { shards, alarm, .. } = &*self.wheel;
        let mut stats = Stats {
            // Allocated here, and not under a shard's lock.
            pending_by_level: Vec::with_capacity(MAX_LEVELS),
            overdue: self.overdue(),
            ended: self.is_ended(),
            ..Stats::default()
        };
        alarm.notes().copy_to(&mut stats);
        for shard in shards {
            shard.add_to(&mut stats);
        }
        stats
    }

    /// How far the wheel is behind, beyond one tick. Once it has ended, not at all.
    fn overdue(&self) -> Duration {
        if self.is_ended() {
            return Duration::ZERO;
        }
        let shards = &self.wheel.shards;
        let first = shards.iter().map(|shard| shard.next_turn()).min().unwrap_or(Nanos::MAX);
        let late_by = shards[0].clock().now().0.saturating_sub(first.0);
        Duration::from_nanos(late_by).saturating_sub(shards[0].resolution().tick())
    }

    /// Ends the wheel, and returns how many timers were pending.
    ///
    /// Every pending future is woken, and then does what those that are made later do too:
    ///
    /// | future | if its deadline has not come |
    /// |---|---|
    /// | [`Sleep`](crate::Sleep), [`Interval::tick`](crate::Interval::tick) | panics |
    /// | [`Sleep::try_wait`](crate::Sleep::try_wait), [`Sleep::poll_elapsed`](crate::Sleep::poll_elapsed), what begins with `try_` | an [`Error`](crate::Error) |
    /// | [`Timeout`](crate::Timeout) | [`Elapsed`](crate::Elapsed) with a [reason](crate::Elapsed::reason), if the future within is not ready |
    /// | [`IdleGuard`](crate::IdleGuard) | an `io::Error` of kind `Other` from each operation that has to wait and has a limit |
    /// | [`Job`](crate::job::Job), [`Repeating`](crate::job::Repeating) | a [`JobError`](crate::job::JobError) with a reason, unless a run is going on |
    /// | [`Jobs`](crate::job::Jobs) | keep what did not run, as [`CouldNotRun`](crate::job::JobState::CouldNotRun); one more is refused by a [`TryRunError`](crate::job::TryRunError), which has it |
    /// | [`DelayQueue`](crate::time::DelayQueue) | keeps its items, and panics if they have to wait; [`try_poll_expired`](crate::time::DelayQueue::try_poll_expired) returns an [`Error`](crate::Error) |
    /// | [`Watch`](crate::purgatory::Watch) | [`WatchError::CouldNotRun`](crate::purgatory::WatchError::CouldNotRun), if its condition does not hold |
    /// | streams | [what their page says](crate::stream#without-a-timer) |
    /// | a sleep of hyper's, a back-off of tower's | panics |
    /// | the response of tower's layer | an [`Error`](crate::Error), if the response within is not ready |
    ///
    /// What is due as it is made is taken in different ways: a sleep of zero is ready on an ended wheel too, while
    /// `try_sleep` and `run_after` refuse theirs. A full wheel takes all three, as what is due needs no place; only a
    /// job that is made elsewhere than on the wheel's runtime needs one, because it goes through the wheel.
    ///
    /// Called again it does nothing and returns 0.
    ///
    /// # Panics
    /// Never.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use std::{future, time::Duration};
    /// use timingwheel::TimingWheel;
    ///
    /// let wheel = TimingWheel::new();
    /// let call = wheel.timeout(Duration::from_secs(30), future::pending::<()>());
    /// let (result, pending) = tokio::join!(call, async { wheel.shutdown() });
    /// assert_eq!(pending, 1);
    /// assert!(result.unwrap_err().reason().is_some_and(|reason| reason.is_shutdown()));
    /// # }
    /// ```
    pub fn shutdown(&self) -> usize {
        let pending = self.wheel.driven.end();
        self.wheel.alarm.wake_to_end();
        self.wheel.alarm.notes().ended();
        pending
    }

    /// Whether the wheel has ended: by [`shutdown`](Self::shutdown), or with its runtime. What it takes then, the table
    /// there tells. One load, without a lock.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        // All shards end together, but for a moment; there is at least one.
        self.wheel.shards[0].has_ended()
    }

    /// Whether this thread is within the driver's runtime. An id is used again, so ask this of a wheel that has not
    /// ended.
    pub(crate) fn is_on_this_runtime(&self) -> bool {
        let here = Handle::try_current().ok().map(|runtime| runtime.id());
        here.is_some() && here == self.wheel.runtime
    }

    /// The shard for a timer made here.
    pub(crate) fn shard(&self) -> &Arc<Shard> {
        let shards = &self.wheel.shards;
        &shards[shard_of_this_thread(shards.len())]
    }
}

impl fmt::Debug for TimingWheel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Wheel { shards, driven: _, alarm: _, runtime: _ } = &*self.wheel;
        f.debug_struct("TimingWheel")
            .field("name", &self.name())
            .field("shards", &shards.len())
            .field("pending", &self.pending())
            .finish_non_exhaustive()
    }
}
