//! The waits of one stream's reads and writes, and the timers that end them.
//!
//! A wait begins when an operation finds the stream not ready, and ends when one in the same direction is ready. Meanwhile
//! the caller may poll again, drop the operation and begin another, or do something else. A guard cannot see a drop. So the
//! timer wakes the task when half of the limit has passed, and at the end: these two points are the *checks* of the wait.
//! If an operation is polled soon after its task was woken, it is alive. If not, it was dropped, and the next operation
//! begins a wait of its own.
//!
//! "Soon" counts from the turn of the wheel that woke the task. That turn may come long after the check: if the runtime was
//! held up, if the tick is long, or if a test has moved the clock by hand.
//!
//! ```text
//!   since              check                  late turn, wakes              poll: an answer to that turn
//! ----|------------------|-------------------------|------------------------------|-----------------> time
//!     |<- half a limit ->|<--- nobody is asked --->|<-- at most ANSWERED_WITHIN -->|
//! ```
//!
//! Each direction has its own timer, which wakes the task of that direction. While an operation waits, the timer is set
//! to the next check or to an earlier time, or the task has been woken and has yet to poll. When a wait ends, and when
//! traffic prolongs a limit, the timer stays. So it may wake the task once too early, and the task's poll then moves it.

use std::io;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::task::coop;

use crate::error::{Elapsed, Limit};
use crate::timers::sleep::Sleep;
use crate::wheel::Nanos;

/// A live task polls within this time after it was woken, even on a busy machine. A later poll is another operation's.
const ANSWERED_WITHIN: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Read,
    Write,
}

use Direction::{Read, Write};

impl Direction {
    fn other(self) -> Self {
        if self == Read { Write } else { Read }
    }
}

#[derive(Debug)]
pub(super) struct Waits {
    read: Wait,
    /// For reads and for writes; `MAX` is no limit.
    pub(super) limits: [Nanos; 2],
    /// Most guards need none of this, because no idle limit is set and no write has had to wait.
    rest: Option<Box<Rest>>,
}

#[derive(Debug)]
struct Rest {
    write: Wait,
    /// A flush was the last write operation that found the stream not ready. Only then does a flush end the wait: a flush
    /// with nothing to flush is always ready, and would keep a write from ever being overdue.
    flush_waits: bool,
    /// How long both directions may be silent; `MAX` is no limit.
    idle_limit: Nanos,
    /// When the silence began: see `set_idle_limit`.
    silent_since: Nanos,
    tolerance: Duration,
}

/// The wait of one direction.
#[derive(Debug)]
struct Wait {
    timer: Sleep,
    /// When it began, or `MAX` if no operation waits.
    since: Nanos,
    /// When the wait began, or the operation was last polled at a check. The next check lies after this.
    answered: Nanos,
}

impl Wait {
    const fn none(timer: Sleep) -> Self {
        Self { timer, since: Nanos::MAX, answered: Nanos::MAX }
    }

    /// The first check after the last answer, and the end, of a limit that counts from `from`.
    #[inline]
    fn check_and_end(&self, from: Nanos, limit: Nanos) -> (Nanos, Nanos) {
        let end = Nanos(from.0.saturating_add(limit.0));
        let half = Nanos(from.0.saturating_add(limit.0 / 2));
        (if half > self.answered { half } else { end }, end)
    }
}

impl Waits {
    /// Without limits. The timer has no deadline.
    pub(super) const fn new(timer: Sleep) -> Self {
        Self { read: Wait::none(timer), limits: [Nanos::MAX; 2], rest: None }
    }

    /// An operation was ready. This is on the way of every byte, so it leaves the timers alone.
    #[inline]
    fn end(&mut self, direction: Direction, is_flush: bool) {
        match (direction, &self.rest) {
            (Read, None) => self.read.since = Nanos::MAX,
            (Write, None) => {}
            (_, Some(rest)) if is_flush && !rest.flush_waits => {}
            (_, Some(_)) => {
                self.wait(direction).since = Nanos::MAX;
                if self.idle_limit() != Nanos::MAX && self.is_on(direction.other()) {
                    self.rest().silent_since = self.now();
                }
            }
        }
    }

    /// Ends the wait of an operation that is ready, or times one that is not. The stream was polled before, so bytes that
    /// have arrived win against a deadline. Returns an error if the operation has waited for too long or cannot be timed.
    /// The next operation then starts anew.
    #[inline]
    pub(super) fn poll<T>(
        &mut self,
        direction: Direction,
        is_flush: bool,
        result: Poll<io::Result<T>>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if result.is_ready() {
            self.end(direction, is_flush);
            return result;
        }
        if self.shortest(direction) == Nanos::MAX {
            return Poll::Pending;
        }
        if direction == Write {
            self.rest().flush_waits = is_flush;
        }
        let error = ready!(self.poll_limited(direction, cx));
        // A task without budget finds every stream not ready, whatever has arrived; it is polled again soon. And a loop
        // that meets only errors has to let other tasks run.
        ready!(coop::poll_proceed(cx)).made_progress();
        self.wait(direction).since = Nanos::MAX;
        if self.rest.is_some() {
            self.rest().silent_since = self.now();
        }
        Poll::Ready(Err(error))
    }

    fn poll_limited(&mut self, direction: Direction, cx: &mut Context<'_>) -> Poll<io::Error> {
        // The time, if this has read it.
        let mut now = None;
        if !self.is_on(direction) {
            self.begin(direction, *now.insert(self.now()));
        }
        if self.shortest(direction) == Nanos::ZERO {
            return Poll::Ready(self.elapsed(direction, Nanos::MAX).into());
        }
        loop {
            let (check, _) = self.check_and_end(direction);
            let timer = &self.wait(direction).timer;
            let has_come = timer.shard().has_come_to(check);
            if has_come || timer.armed().is_none() {
                now = now.or_else(|| Some(self.now()));
            }
            if let Some(now) = now
                && (has_come || now >= check)
            {
                // Not before the check, whatever a clock does that can be paused.
                let now = now.max(check);
                if self.was_dropped(direction, now) {
                    self.begin(direction, now);
                } else {
                    self.wait(direction).answered = now;
                }
                // A wait that has just begun ends too, if the silence lasts too long for the other direction's.
                if self.check_and_end(direction).1 <= now {
                    return Poll::Ready(self.elapsed(direction, now).into());
                }
            }
            // The timer is set to the next check, or to an earlier time. An early timer stays, which spares the lock, unless
            // it would soon wake the task for nothing.
            let (check, _) = self.check_and_end(direction);
            let latest = Nanos(check.0.saturating_add(self.slack().0));
            let left = |until: Nanos| now.map_or(u64::MAX, |now| until.0.saturating_sub(now.0));
            let timer = &mut self.wait(direction).timer;
            if timer.armed().is_none_or(|at| at > latest || left(at) < left(check) / 2) {
                timer.move_to(check, Some(now.unwrap_or_else(|| timer.shard().clock.now())));
            }
            if let Err(error) = ready!(timer.poll_unconstrained(cx)) {
                return Poll::Ready(error.into());
            }
            now = None;
        }
    }

    fn now(&self) -> Nanos {
        self.read.timer.shard().clock.now()
    }

    /// A wait begins. A silence does too, unless an operation waits in the other direction.
    #[inline]
    fn begin(&mut self, direction: Direction, now: Nanos) {
        let other = direction.other();
        if self.rest.is_some() && (!self.is_on(other) || self.was_dropped(other, now)) {
            self.rest().silent_since = now;
        }
        let wait = self.wait(direction);
        (wait.since, wait.answered) = (now, now);
    }

    /// Whether the operation that waited was dropped: nobody polled after the timer woke the task.
    fn was_dropped(&self, direction: Direction, now: Nanos) -> bool {
        let Some(Wait { timer, .. }) = self.get(direction) else { return false };
        let (check, _) = self.check_and_end(direction);
        let shard = timer.shard();
        let was_asked = shard.has_come_to(check) || timer.armed().is_none();
        // The timer may be later: by its tolerance, or because a limit was set that had passed already.
        let asked = check.max(timer.deadline_nanos()).max(shard.last_late_turn());
        was_asked && now > asked.after(ANSWERED_WITHIN.max(2 * shard.resolution.tick()))
    }

    /// The earlier of the limit's for this direction and the idle limit's.
    #[inline]
    fn check_and_end(&self, direction: Direction) -> (Nanos, Nanos) {
        let Some(wait) = self.get(direction) else { return (Nanos::MAX, Nanos::MAX) };
        let (mut check, mut end) = wait.check_and_end(wait.since, self.limits[direction as usize]);
        if let Some(Rest { idle_limit, silent_since, .. }) = self.rest.as_deref()
            && *idle_limit != Nanos::MAX
        {
            let of_idle = wait.check_and_end(*silent_since, *idle_limit);
            (check, end) = (check.min(of_idle.0), end.min(of_idle.1));
        }
        (check, end)
    }

    /// The error for the limit that has passed.
    fn elapsed(&self, direction: Direction, now: Nanos) -> Elapsed {
        let limit = self.limits[direction as usize];
        let end = self.get(direction).map(|wait| wait.check_and_end(wait.since, limit).1);
        if limit == Nanos::MAX || end.is_none_or(|end| end > now) {
            return Elapsed::of(Limit::Idle, self.idle_limit());
        }
        match direction {
            Read => Elapsed::of(Limit::Read, limit),
            Write => Elapsed::of(Limit::Write, limit),
        }
    }

    /// How late an error may be by the tolerance.
    #[inline]
    fn slack(&self) -> Nanos {
        self.rest.as_ref().map_or(Nanos::ZERO, |rest| Nanos::from_duration(rest.tolerance))
    }

    #[inline]
    fn shortest(&self, direction: Direction) -> Nanos {
        self.limits[direction as usize].min(self.idle_limit())
    }

    #[inline]
    fn is_on(&self, direction: Direction) -> bool {
        self.get(direction).is_some_and(|wait| wait.since != Nanos::MAX)
    }

    #[inline]
    fn get(&self, direction: Direction) -> Option<&Wait> {
        match direction {
            Read => Some(&self.read),
            Write => self.rest.as_ref().map(|rest| &rest.write),
        }
    }

    #[inline]
    fn wait(&mut self, direction: Direction) -> &mut Wait {
        match direction {
            Read => &mut self.read,
            Write => &mut self.rest().write,
        }
    }

    fn rest(&mut self) -> &mut Rest {
        self.rest.get_or_insert_with(|| {
            Box::new(Rest {
                write: Wait::none(self.read.timer.another()),
                flush_waits: false,
                idle_limit: Nanos::MAX,
                silent_since: Nanos::MAX,
                tolerance: Duration::ZERO,
            })
        })
    }
}

/// Settings, which may change while an operation waits.
impl Waits {
    pub(super) fn idle_limit(&self) -> Nanos {
        self.rest.as_ref().map_or(Nanos::MAX, |rest| rest.idle_limit)
    }

    pub(super) fn set_limit(&mut self, direction: Direction, limit: Nanos) {
        self.change(|waits, _| waits.limits[direction as usize] = limit);
    }

    pub(super) fn set_idle_limit(&mut self, limit: Nanos) {
        self.change(|waits, now| {
            let rest = waits.rest();
            if rest.idle_limit == Nanos::MAX {
                rest.silent_since = now;
            }
            rest.idle_limit = limit;
        });
    }

    pub(super) fn set_tolerance(&mut self, tolerance: Duration) {
        self.change(|waits, _| {
            waits.read.timer.set_tolerance(tolerance);
            let rest = waits.rest();
            rest.write.timer.set_tolerance(tolerance);
            rest.tolerance = tolerance;
        });
    }

    /// The next operation that has to wait begins anew.
    pub(super) fn restart(&mut self) {
        self.read.since = Nanos::MAX;
        if let Some(rest) = &mut self.rest {
            rest.write.since = Nanos::MAX;
        }
    }

    fn change(&mut self, change: impl FnOnce(&mut Self, Nanos)) {
        let now = self.now();
        // Asked before the change, because the checks follow from the limits.
        let dropped = [Read, Write].map(|direction| self.was_dropped(direction, now));
        change(self, now);
        for direction in [Read, Write] {
            if direction == Write && self.rest.is_none() {
                continue;
            }
            let is_limited = self.shortest(direction) != Nanos::MAX;
            let (check, _) = self.check_and_end(direction);
            let wait = self.wait(direction);
            if dropped[direction as usize] || !is_limited {
                wait.since = Nanos::MAX;
            } else if wait.since != Nanos::MAX && wait.timer.armed().is_some_and(|at| at > check) {
                // Not into the past, because the time for an answer counts from here.
                wait.timer.move_to(check.max(now), Some(now));
            }
        }
    }
}
