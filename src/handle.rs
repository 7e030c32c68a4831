//! [`TimingWheel`]: the handle by which programs use a wheel.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Id;
use tokio::time::Instant;

use crate::engine::shard::{Shard, shard_of_this_thread};
use crate::engine::turn::Turner;
use crate::telemetry::stats::Stats;
use crate::wheel::Nanos;

/// Levels of two slots each need so many to reach from the shortest tick to the last.
const MAX_LEVELS: usize = 64;

/// A hierarchical timing wheel on a tokio runtime: the handle from which timers are made.
///
/// Cloning is cheap, and clones are the same wheel. Timers may be made and awaited on any thread, in any runtime or
/// executor.
///
/// The runtime on which the wheel was made turns it. Timers fire only while that runtime runs. Outside of its `block_on` a
/// current-thread runtime fires no timers, not even those that other threads await. Only [`Stats::overdue`] shows it.
///
/// The wheel ends when
///
/// - the last handle and the last future of the wheel are gone, or
/// - [`shutdown`](Self::shutdown) is called, or
/// - the runtime is shut down, or
/// - its clock is paused, and comes to the end of time: 292 years after the process began.
///
/// # Precision
///
/// A timer never fires early. It fires within a [tick](crate::Builder::tick) of its deadline, or within two ticks while 32 or
/// more timers fire in each tick; add the scheduling delay that tokio's own timers would have on the same runtime.
///
/// A busy wheel is turned only once in two ticks, which takes less CPU time.
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
    pub(crate) wheel: Arc<Wheel>,
}

pub(crate) struct Wheel {
    pub(crate) shards: Box<[Arc<Shard>]>,
    pub(crate) turner: Arc<Turner>,
    /// The driver's runtime; none in a model. Not a handle, which would keep the runtime's files open.
    pub(crate) runtime: Option<Id>,
    pub(crate) settings: Settings,
}

/// The settings with which a wheel is built. Their methods in [`Builder`](crate::Builder) tell what they are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) tick: Duration,
    pub(crate) wheel_size: usize,
    pub(crate) shards: Option<usize>,
    pub(crate) max_pending: Option<usize>,
}

impl TimingWheel {
    /// The wheel's name in [metrics and events](crate::monitor): the one given to
    /// [`Builder::name`](crate::Builder::name), or a number.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.wheel.turner.alarm.counters.name
    }

    /// How many timers are pending: armed, and neither fired nor dropped since.
    ///
    /// A future arms its timer when it is first polled. With a [bound](crate::Builder::max_pending) the `try_`
    /// methods arm it at once.
    ///
    /// On a wheel with a bound this is one load. Otherwise it locks each shard for a moment, one after the other.
    #[must_use]
    pub fn pending(&self) -> usize {
        let shards = &self.wheel.shards;
        match &shards[0].bound {
            Some(bound) => bound.taken(),
            None => shards.iter().map(|shard| shard.pending()).sum(),
        }
    }

    /// The time by the wheel's clock: tokio's where tests can pause it, that of the system otherwise.
    ///
    /// Unlike [`Instant::now`], it does not depend on the runtime that the calling thread is within.
    #[must_use]
    pub fn current_time(&self) -> Instant {
        self.wheel.shards[0].clock.now_as_instant()
    }

    /// How long a [tick](crate::Builder::tick) is.
    #[must_use]
    pub fn tick(&self) -> Duration {
        self.wheel.settings.tick
    }

    /// The [bound](crate::Builder::max_pending) on pending timers, if there is one.
    #[must_use]
    pub fn max_pending(&self) -> Option<usize> {
        self.wheel.settings.max_pending
    }

    /// Whether both are handles of one wheel.
    #[must_use]
    pub fn same_wheel(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.wheel, &other.wheel)
    }

    /// The wheel's counts so far, and its present state. See [`monitor`](crate::monitor).
    ///
    /// This locks each shard for a moment, one after the other. A turn that fires some hundred timers locks a shard for
    /// as long; so does counting a shard with tens of thousands of slots.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let Wheel { shards, turner, .. } = &*self.wheel;
        let mut stats = Stats {
            // Allocated here, because below a shard's lock is held.
            pending_by_level: Vec::with_capacity(MAX_LEVELS),
            overdue: self.overdue(),
            unwatched: turner.alarm.watch.is_missing(),
            ended: self.is_ended(),
            ..Stats::default()
        };
        turner.alarm.counters.copy_to(&mut stats);
        for shard in shards {
            shard.add_to(&mut stats);
        }
        // The shards were read one after the other, so their sum may be more than were ever pending at a time.
        if let Some(bound) = &shards[0].bound {
            stats.pending = bound.taken();
        }
        stats
    }

    /// How far the wheel is behind. A wait until the end of the timer's tick does not count. On a busy wheel, a wait
    /// until the end of the next tick does not count either.
    fn overdue(&self) -> Duration {
        if self.is_ended() {
            return Duration::ZERO;
        }
        let Wheel { shards, turner, .. } = &*self.wheel;
        let first = shards.iter().map(|shard| shard.next_turn()).min().unwrap_or(Nanos::MAX);
        let in_time = first.after(shards[0].resolution.tick()).max(turner.alarm.not_before());
        Duration::from_nanos(shards[0].clock.now().0.saturating_sub(in_time.0))
    }

    /// Ends the wheel, and returns how many timers were pending.
    ///
    /// Every pending future is woken. It then does the following, as do futures that are made later:
    ///
    /// | future | if its deadline has not come |
    /// |---|---|
    /// | [`Sleep`](crate::Sleep), [`Interval::tick`](crate::Interval::tick) | panics |
    /// | [`Sleep::wait`](crate::Sleep::wait) and its polling forms, methods that begin with `try_` | an [`Error`](crate::Error) |
    /// | [`Timeout`](crate::Timeout), a sleep of hyper's | wait by [tokio's timer](Self::timeout) |
    /// | [`IdleGuard`](crate::IdleGuard) | an `io::Error` of kind `Other` from each operation that has to wait and has a limit |
    /// | [`DelayQueue`](crate::time::DelayQueue) | keeps its items, and panics if they have to wait; [`poll_try_expired`](crate::time::DelayQueue::poll_try_expired) returns an [`Error`](crate::Error) |
    /// | streams | [what their page says](crate::stream#without-a-timer) |
    ///
    /// For a delay of zero, the functions differ on an ended wheel: `sleep` is ready at once, while `try_sleep`
    /// refuses. A full wheel takes both, because a timer that is already due needs no permit.
    ///
    /// A second call does nothing and returns 0.
    ///
    /// # Panics
    /// Never.
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
    /// let mut sleep = wheel.sleep(Duration::from_secs(30));
    /// let (result, pending) = tokio::join!(sleep.wait(), async { wheel.shutdown() });
    /// assert_eq!(pending, 1);
    /// assert!(result.unwrap_err().is_shutdown());
    /// # }
    /// ```
    pub fn shutdown(&self) -> usize {
        self.wheel.turner.end()
    }

    /// Whether the wheel has ended: by [`shutdown`](Self::shutdown), or with its runtime. The table at `shutdown` tells what
    /// futures of an ended wheel do. This is one load, without a lock.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        // All shards end within a moment of each other, and there is at least one.
        self.wheel.shards[0].has_ended()
    }

    /// Counts a panic in [`Stats::wakers_panicked`], so that an operator sees it in the wheel's statistics, metrics and
    /// health. For libraries that are built on timers, and catch panics of code that they run later.
    pub fn note_panic(&self) {
        self.wheel.turner.alarm.counters.note_panic();
    }

    /// The runtime on which the wheel was made, and whose workers turn it.
    ///
    /// A timer's waker is called there, or on the thread that ends the wheel. A library that is built on timers can
    /// compare this id with that of its thread's runtime, before it spawns a task there.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let wheel = timingwheel::TimingWheel::new();
    /// assert_eq!(wheel.runtime_id(), tokio::runtime::Handle::current().id());
    /// # }
    /// ```
    #[must_use]
    pub fn runtime_id(&self) -> Id {
        self.wheel.runtime.expect("only a model's wheel is on no runtime")
    }

    /// The shard for a timer that this thread makes.
    #[inline]
    pub(crate) fn shard(&self) -> &Arc<Shard> {
        let shards = &self.wheel.shards;
        &shards[shard_of_this_thread(shards.len())]
    }
}

impl fmt::Debug for TimingWheel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Wheel { shards, turner: _, runtime: _, settings: _ } = &*self.wheel;
        f.debug_struct("TimingWheel")
            .field("name", &self.name())
            .field("shards", &shards.len())
            .field("pending", &self.pending())
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    use std::task::Waker;

    const HOUR: Duration = Duration::from_secs(60 * 60);

    #[test]
    fn a_wheel_is_overdue_from_a_tick_on_or_from_when_a_busy_one_may_be_turned() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let wheel = {
            let _guard = runtime.enter();
            TimingWheel::builder().tick(HOUR).shards(1).build().unwrap()
        };
        // Nobody runs the runtime, so nobody turns the wheel.
        let Wheel { shards, turner, .. } = &*wheel.wheel;
        let now = shards[0].clock.now();
        let deadline = now.before(HOUR * 3);
        shards[0].arm(now.before(HOUR * 4), deadline, Waker::noop()).unwrap().unwrap();
        let overdue = |not_before| {
            turner.alarm.set_next_turn(now.after(HOUR), not_before);
            // Whole half hours: the test takes less.
            wheel.stats().overdue.as_secs() / (30 * 60)
        };
        assert_eq!(overdue(now.after(HOUR)), 0);
        assert_eq!(overdue(now.before(HOUR)), 2);
        assert_eq!(overdue(now.before(HOUR * 5 / 2)), 4, "two hours after the end of its tick");
        assert_eq!(overdue(Nanos::ZERO), 4);
    }
}
