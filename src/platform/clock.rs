//! The clock of all wheels. Nothing else reads the time for deadlines, but for sleeps that have no wheel yet.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Id, RuntimeFlavor, worker_index};
use tokio::time::Instant;

use crate::platform::sync::lock_hidden;
use crate::wheel::Nanos;

/// 30 years. Longer sleeps and periods in `timingwheel::time`, and longer times to an interval's reset, count as this
/// long, as they do in tokio.
pub(crate) const LONGEST: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

/// The middle of the time that [`Nanos`] can count. There stands the moment at which the process first used a clock, so
/// wheels tell apart all instants within 292 years of it, before and after.
const MIDDLE: u64 = 1 << 63;
static STARTED: LazyLock<(std::time::Instant, Option<Parts>)> = LazyLock::new(|| {
    let now = std::time::Instant::now();
    let (parts, a_second_later) = (Parts::of(now), Parts::of(now + Duration::new(1, 1)));
    (now, (a_second_later.nanos_since(parts) == NANOS_PER_SECOND + 1).then_some(parts))
});

const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// The two numbers of an instant, as the instant gives them to any hasher. Subtracting instants instead takes two calls
/// into std; `src/engine/DESIGN.md` has the cost. A process subtracts only if its instants give other numbers.
#[derive(Clone, Copy, Debug, Default)]
struct Parts {
    seconds: i64,
    nanos: i64,
}

impl Parts {
    #[inline]
    fn of(instant: std::time::Instant) -> Self {
        let mut parts = Self::default();
        instant.hash(&mut parts);
        parts
    }

    #[inline]
    const fn nanos_since(self, earlier: Self) -> i64 {
        let seconds = self.seconds.saturating_sub(earlier.seconds);
        // Not by saturation, which what is left of a second would take back.
        if let Some(nanos) = seconds.checked_mul(NANOS_PER_SECOND)
            && let Some(nanos) = nanos.checked_add(self.nanos - earlier.nanos)
        {
            return nanos;
        }
        if seconds < 0 { i64::MIN } else { i64::MAX }
    }
}

impl Hasher for Parts {
    fn write_i64(&mut self, seconds: i64) {
        self.seconds = seconds;
    }

    fn write_u64(&mut self, seconds: u64) {
        self.seconds = seconds.cast_signed();
    }

    fn write_u32(&mut self, nanos: u32) {
        self.nanos = nanos.into();
    }

    fn write(&mut self, _: &[u8]) {}

    fn finish(&self) -> u64 {
        0
    }
}

/// Whether a clock of this process was ever seen paused. A pause is noticed at the next turn, or when the alarm is set.
/// Relaxed: one thread runs such a clock.
static SEEN_PAUSED: AtomicBool = AtomicBool::new(false);

/// Reads std's clock, which cannot be paused. It measures how long something takes.
pub(crate) fn stopwatch() -> std::time::Instant {
    // In a model all clocks stand still, because a model has to run the same each time.
    if cfg!(all(test, loom)) { STARTED.0 } else { std::time::Instant::now() }
}

/// The time at `instant`. An instant that is more than 292 years away counts as 292 years away.
#[inline]
pub(crate) fn nanos(instant: Instant) -> Nanos {
    let (instant, (started, parts)) = (instant.into_std(), &*STARTED);
    let since = match parts {
        Some(parts) => Parts::of(instant).nanos_since(*parts),
        None => nanos_between(*started, instant),
    };
    Nanos(since.cast_unsigned() ^ MIDDLE)
}

/// As [`Parts::nanos_since`], by std's subtraction.
#[cold]
fn nanos_between(earlier: std::time::Instant, later: std::time::Instant) -> i64 {
    let narrow = |time: Duration| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
    match later.checked_duration_since(earlier) {
        Some(time) => narrow(time),
        None => -narrow(earlier - later),
    }
}

/// Whether an instant of this time may be further away than a wheel can tell.
#[inline]
pub(crate) fn is_beyond(at: Nanos) -> bool {
    at.0 <= 1 || at == Nanos::MAX
}

/// The instant at the time `at`.
pub(crate) fn instant(at: Nanos) -> Instant {
    let started = STARTED.0;
    let instant = match at.0.checked_sub(MIDDLE) {
        Some(nanos) => started.checked_add(Duration::from_nanos(nanos)),
        None => started.checked_sub(Duration::from_nanos(MIDDLE - at.0)),
    };
    // Some systems' instants reach less far. As tokio does, take 30 years for never.
    instant.map_or_else(|| Instant::now() + LONGEST, Instant::from_std)
}

/// Shows an instant as "in 3s" or "2ms ago". The numbers in an instant mean nothing to a reader.
pub(crate) struct FromNow(pub(crate) Instant);

impl fmt::Debug for FromNow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let now = Instant::now();
        match self.0.checked_duration_since(now) {
            Some(left) => write!(f, "in {left:?}"),
            None => write!(f, "{:?} ago", now.duration_since(self.0)),
        }
    }
}

/// A wheel's clock.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    /// Whether it can be paused: then it is tokio's, which tests can pause on runtimes with one thread. Otherwise it is
    /// std's, because tokio's is the clock of the runtime that the thread is within, which may be another one than the
    /// wheel's.
    pub(crate) is_pausable: bool,
    /// If it can be paused: the wheel's runtime.
    runtime: Option<Arc<Home>>,
}

/// The runtime that a clock belongs to. A thread outside of the runtime enters it to read the clock.
#[derive(Debug)]
struct Home {
    id: Id,
    /// `None` after the wheel's end: it would keep what belongs to the runtime.
    runtime: Mutex<Option<Handle>>,
}

impl Home {
    /// Calls `read` within the runtime.
    #[cold]
    fn within<R>(&self, read: impl FnOnce() -> R) -> R {
        let is_elsewhere = match Handle::try_current() {
            Ok(current) => current.id() != self.id,
            // A thread that is about to end can enter none.
            Err(error) => !error.is_thread_local_destroyed(),
        };
        let runtime = if is_elsewhere { lock_hidden(&self.runtime).clone() } else { None };
        let _context = runtime.as_ref().map(Handle::enter);
        read()
    }
}

impl Clock {
    /// The last time that a clock tells, just before the end of time. Only a paused clock comes to it.
    pub(crate) const LAST: Nanos = Nanos(Nanos::MAX.0 - 1);

    /// The clock of a wheel on this runtime.
    pub(crate) fn of(runtime: &Handle) -> Self {
        let is_pausable = runtime.runtime_flavor() != RuntimeFlavor::MultiThread && has_test_util();
        let home = || Arc::new(Home { id: runtime.id(), runtime: Mutex::new(Some(runtime.clone())) });
        Self { is_pausable, runtime: is_pausable.then(home) }
    }

    #[cfg(test)]
    pub(crate) const fn that_pauses(is_pausable: bool) -> Self {
        Self { is_pausable, runtime: None }
    }

    /// Lets go of the runtime.
    pub(crate) fn end(&self) {
        let runtime = self.runtime.as_ref().and_then(|home| lock_hidden(&home.runtime).take());
        drop(runtime);
    }

    /// Whether it may have jumped since the caller read it: it can be paused, and in this process one was.
    #[inline]
    pub(crate) fn may_jump(&self) -> bool {
        self.is_pausable && SEEN_PAUSED.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn now(&self) -> Nanos {
        // No clock comes to the end of time.
        nanos(self.now_as_instant()).min(Self::LAST)
    }

    /// Whether the time `at` has come, or can never come, because the clock has come to its last time.
    #[cold]
    pub(crate) fn has_come_to(&self, at: Nanos) -> bool {
        let now = self.now();
        at <= now || now == Self::LAST
    }

    #[inline]
    pub(crate) fn now_as_instant(&self) -> Instant {
        if !self.is_pausable || cfg!(all(test, loom)) {
            return stopwatch().into();
        }
        match &self.runtime {
            // A worker of another runtime enters this one only if a clock was seen paused, because each look which runtime is
            // the current one takes as long as reading the clock.
            Some(home) if self.may_jump() || worker_index().is_none() => home.within(Instant::now),
            _ => Instant::now(),
        }
    }

    /// Notices a pause, after which the clock [may jump](Self::may_jump).
    pub(crate) fn look_for_pause(&self) {
        if self.is_pausable && !self.may_jump() {
            self.is_paused();
        }
    }

    /// Whether the clock is paused: it reads the same twice, although std's clock has moved in between.
    pub(crate) fn is_paused(&self) -> bool {
        // In a model one that can be paused is.
        if !self.is_pausable || cfg!(all(test, loom)) {
            return self.is_pausable;
        }
        // tokio's clock panics in a thread that is about to end, and drops a timer with its locals.
        if Handle::try_current().is_err_and(|error| error.is_thread_local_destroyed()) {
            return false;
        }
        let stands_still = || {
            let (before, std_before) = (Instant::now(), std::time::Instant::now());
            while std::time::Instant::now() == std_before {
                std::hint::spin_loop();
            }
            Instant::now() == before
        };
        let paused = self.runtime.as_ref().map_or_else(stands_still, |home| home.within(stands_still));
        if paused {
            SEEN_PAUSED.store(true, Ordering::Relaxed);
        }
        paused
    }
}

/// Whether tokio was built with its feature `test-util`, without which no clock can be paused. The compiler decides: with
/// the feature, tokio's builder has a method of this name, which comes before the trait's, and returns the builder.
pub(crate) fn has_test_util() -> bool {
    #[allow(dead_code, reason = "used without the feature")]
    trait WithoutTestUtil {
        fn start_paused(&mut self, _: bool) {}
    }
    impl WithoutTestUtil for Builder {}
    fn returns_a_value<T>(_: fn(&'static mut Builder) -> T) -> bool {
        size_of::<T>() > 0
    }
    returns_a_value(|builder| builder.start_paused(false))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

    #[test]
    fn instants_up_to_292_years_away_are_told_as_they_were() {
        let now = Instant::now();
        for offset in [Duration::ZERO, Duration::from_nanos(1), YEAR, YEAR * 56, YEAR * 292] {
            for at in [now.checked_add(offset), now.checked_sub(offset)].into_iter().flatten() {
                assert_eq!(instant(nanos(at)), at, "{offset:?}");
            }
        }
        let far = |years| now.checked_add(YEAR * years).map(nanos);
        assert!([far(293), far(10_000)].into_iter().flatten().all(|at| at == Nanos::MAX));
    }

    #[test]
    fn the_parts_of_instants_tell_what_subtraction_tells() {
        let (started, parts) = *STARTED;
        let parts = parts.expect("std's instants give their hasher two numbers");
        for offset in [Duration::ZERO, Duration::from_nanos(1), YEAR, YEAR * 292, YEAR * 293, YEAR * 10_000] {
            for at in [started.checked_add(offset), started.checked_sub(offset)].into_iter().flatten() {
                let by_parts = Parts::of(at).nanos_since(parts);
                assert!(by_parts.abs_diff(nanos_between(started, at)) <= 1, "{offset:?}");
            }
        }
    }

    #[test]
    fn what_is_out_of_reach_is_as_far_as_can_be_at_any_part_of_a_second() {
        for nanos in [0, 500_000_000, 999_999_999] {
            let started = Parts { seconds: 7, nanos: 999_999_999 - nanos };
            assert_eq!(Parts { seconds: i64::MAX, nanos }.nanos_since(started), i64::MAX);
            assert_eq!(Parts { seconds: i64::MIN, nanos }.nanos_since(started), i64::MIN);
        }
    }

    #[test]
    fn the_clock_of_these_tests_can_be_paused() {
        assert!(has_test_util(), "they are built with tokio's `test-util`");
    }

    #[tokio::test(start_paused = true)]
    async fn an_instant_is_shown_as_seen_from_now() {
        let at = Instant::now() + Duration::from_secs(3);
        assert_eq!(format!("{:?}", FromNow(at)), "in 3s");
        tokio::time::advance(Duration::from_secs(4)).await;
        assert_eq!(format!("{:?}", FromNow(at)), "1s ago");
    }
}
