//! `wheel.interval(period)`.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior};

use crate::error::Error;
use crate::handle::TimingWheel;
use crate::platform::clock::{self, LONGEST};
use crate::timers::sleep::Sleep;
use crate::wheel::Nanos;

/// A tick that is taken so long after its time counts as missed, as with tokio's intervals.
const MISSED_AFTER: Duration = Duration::from_millis(5);

impl TimingWheel {
    /// Ticks every `period`, for the first time at once.
    ///
    /// # Precision
    /// Each tick as [`sleep`](Self::sleep). The schedule does not drift: each tick is due one period after the time at
    /// which the last was due, however late that was taken. [Missed](Interval::set_missed_tick_behavior) ticks may change
    /// the schedule.
    ///
    /// # Panics
    /// If `period` is zero. Ticking panics as awaiting a [`Sleep`] does.
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
    /// let start = Instant::now();
    /// let mut interval = wheel.interval(Duration::from_secs(1));
    /// assert_eq!(interval.tick().await, start);
    /// assert_eq!(interval.tick().await, start + Duration::from_secs(1));
    /// # }
    /// ```
    #[track_caller]
    pub fn interval(&self, period: Duration) -> Interval {
        self.interval_at(self.shard().clock.now_as_instant(), period)
    }

    /// Ticks every `period`, for the first time at `start`, as [`interval`](Self::interval) does.
    ///
    /// # Panics
    /// As [`interval`](Self::interval).
    #[track_caller]
    pub fn interval_at(&self, start: Instant, period: Duration) -> Interval {
        assert_period(period);
        let missed_tick_behavior = MissedTickBehavior::default();
        Interval { sleep: self.sleep_until(start), next: start, period, missed_tick_behavior }
    }
}

/// What is left of `time` after as many whole periods as fit.
fn remainder(time: Duration, period: Duration) -> Duration {
    const NANOS_PER_SECOND: u128 = 1_000_000_000;
    let nanos = time.as_nanos() % period.as_nanos();
    #[allow(
        clippy::cast_possible_truncation,
        reason = "it is at most `time`, whose parts have 64 and 32 bits"
    )]
    Duration::new((nanos / NANOS_PER_SECOND) as u64, (nanos % NANOS_PER_SECOND) as u32)
}

#[track_caller]
pub(crate) fn assert_period(period: Duration) {
    assert!(!period.is_zero(), "interval period must be at least 1ns, got {period:?}");
}

/// Ticks in a period, from [`TimingWheel::interval`] and [`TimingWheel::interval_at`].
#[derive(Debug)]
#[must_use = "an interval does nothing unless its ticks are awaited"]
pub struct Interval {
    sleep: Sleep,
    /// The next tick. An instant, so that it is on the schedule however long ago that began.
    next: Instant,
    period: Duration,
    missed_tick_behavior: MissedTickBehavior,
}

impl Interval {
    /// Waits for the next tick, and returns the instant at which it was due.
    ///
    /// # Cancel safety
    /// Dropping this future loses no tick.
    ///
    /// # Panics
    /// If the wheel has ended or is full. [`try_tick`](Self::try_tick) returns an error
    /// instead.
    pub async fn tick(&mut self) -> Instant {
        poll_fn(|cx| self.poll_tick(cx)).await
    }

    /// Polls for the next tick. If several tasks poll, only the last is woken.
    ///
    /// # Panics
    /// As [`tick`](Self::tick).
    pub fn poll_tick(&mut self, cx: &mut Context<'_>) -> Poll<Instant> {
        match ready!(self.poll_try_tick(cx)) {
            Ok(tick) => Poll::Ready(tick),
            Err(error) => panic!("an `Interval` cannot wait for its next tick: {error}"),
        }
    }

    /// As [`tick`](Self::tick), but returns an error instead of a panic.
    ///
    /// # Cancel safety
    /// Dropping this future loses no tick.
    ///
    /// # Errors
    /// If the wheel has ended or is full. The interval can be polled again.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::time::Duration;
    /// use timingwheel::TimingWheel;
    ///
    /// let wheel = TimingWheel::new();
    /// let mut interval = wheel.interval(Duration::from_secs(10));
    /// let heartbeat = tokio::spawn(async move {
    ///     let mut beats = 0;
    ///     while interval.try_tick().await.is_ok() {
    ///         beats += 1;
    ///     }
    ///     beats
    /// });
    /// tokio::time::sleep(Duration::from_secs(25)).await;
    /// wheel.shutdown();
    /// assert_eq!(heartbeat.await.unwrap(), 3);
    /// # }
    /// ```
    pub async fn try_tick(&mut self) -> Result<Instant, Error> {
        poll_fn(|cx| self.poll_try_tick(cx)).await
    }

    /// Polls as [`poll_tick`](Self::poll_tick) does, but returns an error where that would panic.
    ///
    /// # Errors
    /// As [`try_tick`](Self::try_tick).
    pub fn poll_try_tick(&mut self, cx: &mut Context<'_>) -> Poll<Result<Instant, Error>> {
        self.sleep.poll_wait(cx).map_ok(|()| self.take_tick())
    }

    /// Takes the tick that has come due, and puts the next on the schedule.
    fn take_tick(&mut self) -> Instant {
        let (tick, now, period) = (self.next, self.now(), self.period);
        let late_by = now.saturating_duration_since(tick);
        let next = match self.missed_tick_behavior {
            MissedTickBehavior::Delay if late_by > self.missed_after() => self.after(now, period),
            MissedTickBehavior::Skip if late_by > self.missed_after() => {
                self.after(now, period - remainder(late_by, period))
            }
            _ => self.after(tick, period),
        };
        // The timer has fired, so this does not register it; the next poll does.
        self.schedule(next);
        tick
    }

    /// Puts the next tick at `next`.
    fn schedule(&mut self, next: Instant) {
        self.next = next;
        Pin::new(&mut self.sleep).reset(next);
    }

    fn now(&self) -> Instant {
        self.sleep.shard().clock.now_as_instant()
    }

    /// `duration` after `instant`, or an instant that never comes.
    fn after(&self, instant: Instant, duration: Duration) -> Instant {
        instant.checked_add(duration).unwrap_or_else(|| clock::instant(Nanos::MAX))
    }

    /// Puts the next tick one period from now.
    pub fn reset(&mut self) {
        self.schedule(self.after(self.now(), self.period));
    }

    /// Makes the next tick due now.
    pub fn reset_immediately(&mut self) {
        self.schedule(self.now());
    }

    /// Puts the next tick `after` from now. More than 30 years counts as 30 years.
    pub fn reset_after(&mut self, after: Duration) {
        self.schedule(self.after(self.now(), after.min(LONGEST)));
    }

    /// Puts the next tick at `deadline`.
    pub fn reset_at(&mut self, deadline: Instant) {
        self.schedule(deadline);
    }

    /// How missed ticks are handled; [`MissedTickBehavior::Burst`] unless it was set.
    #[must_use]
    pub const fn missed_tick_behavior(&self) -> MissedTickBehavior {
        self.missed_tick_behavior
    }

    /// Sets how missed ticks are handled. A tick is missed if it is taken more than 5 ms after it was due. If the wheel's
    /// tick is longer than 5 ms, that counts instead.
    pub const fn set_missed_tick_behavior(&mut self, behavior: MissedTickBehavior) {
        self.missed_tick_behavior = behavior;
    }

    /// The time between ticks.
    #[must_use]
    pub const fn period(&self) -> Duration {
        self.period
    }

    /// Sets the time between ticks. It counts from the tick that is due next.
    ///
    /// # Panics
    /// If `period` is zero.
    #[track_caller]
    pub fn set_period(&mut self, period: Duration) {
        assert_period(period);
        self.period = period;
    }

    /// How late a tick has to be to count as missed.
    fn missed_after(&self) -> Duration {
        MISSED_AFTER.max(self.sleep.shard().resolution.tick())
    }
}
