//! How late a timer may be, and sleeps that may be late.

use std::pin::Pin;
use std::time::Duration;

use tokio::time::Instant;

use crate::platform::clock::nanos;
use crate::timers::sleep::Sleep;
use crate::wheel::Nanos;

/// How late a timer may be: by a time, or by a share of its delay.
///
/// Deadlines of timers with tolerances are rounded up to common points. So such a timer fires together with others that
/// are due at about the same time, and stays in one place of the wheel until then. Use tolerances for very many timers of
/// some seconds or more that seldom fire, such as those of idle connections. The greater the tolerance, the less often the
/// wheel is turned.
///
/// | given to | it counts |
/// |---|---|
/// | [`Sleep::with_tolerance`](crate::Sleep::with_tolerance), [`Timeout::with_tolerance`](crate::Timeout::with_tolerance) | for the deadline that is set, and for those of later resets; a share is turned into a time once, and resets keep that time |
/// | [`IdleGuard::with_tolerance`](crate::IdleGuard::with_tolerance) | for each wait; a share is a part of the limit |
/// | [`Interval::with_tolerance`](crate::Interval::with_tolerance) | for each tick; a share is a part of the period |
/// | [`stream::Timeout::with_tolerance`](crate::stream::Timeout::with_tolerance) | for each gap; a share is a part of the limit |
/// | [`DelayQueue::with_tolerance`](crate::time::DelayQueue::with_tolerance) | for each item; a share is a part of the time for which the queue waits |
///
/// # Precision
/// Never early. Late by less than the tolerance plus the machine's wake-up time, or by as much as a timer without a
/// tolerance ([precision](crate::TimingWheel#precision)), whichever is more.
///
/// The points of a grid lie 2, 4, 8 and so on ticks apart. A deadline is rounded up on the widest grid that is not wider
/// than the tolerance, so a timer is late by half of the grid on average. All wheels of a process have the same points,
/// except wheels whose clock can be paused: these count from the time at which they were made.
///
/// At a tick of 1 ms, a tolerance of 1,024 ms has a grid of 1,024 ms. One of 1 s has a grid of 512 ms, and wakes a process
/// twice as often. Each point of a wider grid is also a point of the narrower ones, so timers with different tolerances
/// fire together too.
///
/// On a wheel with 32 slots or more, a timer whose tolerance is a seventh of its delay or more stays in one place until it
/// fires or is reset. With an eighth, it moves once at most. With less, it may move as often as a timer without a
/// tolerance. A tolerance of less than two ticks counts as none. So does any tolerance of a delay of zero.
///
/// The [statistics](crate::Stats::lateness) count lateness from the rounded deadline.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use std::time::Duration;
/// use timingwheel::{TimingWheel, Tolerance};
/// use tokio::time::Instant;
///
/// let wheel = TimingWheel::new();
/// let start = Instant::now();
/// wheel.sleep(Duration::from_secs(30)).with_tolerance(Tolerance::share(0.125)).await;
/// let late = start.elapsed() - Duration::from_secs(30);
/// assert!(late < Duration::from_secs(30) / 8);
/// # }
/// ```
///
/// The idea comes from Linux's timer wheel, where each timer has a tolerance of up to 12.5 %.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tolerance {
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Time(Duration),
    /// In 65,536ths of the delay, rounded down.
    Share(u16),
}

impl Tolerance {
    /// Late by less than `time`.
    #[must_use]
    pub const fn time(time: Duration) -> Self {
        Self { kind: Kind::Time(time) }
    }

    /// Late by less than a share of the delay: 0.125 is 12.5 %. The share is rounded down to 65,536ths, and 1.0 to 65,535
    /// of these.
    ///
    /// # Panics
    /// If `share` is not from 0 to 1. Before you pass on a user's number, check `(0.0..=1.0).contains(&share)`.
    #[must_use]
    #[track_caller]
    pub fn share(share: f64) -> Self {
        // NaN is in no range.
        assert!((0.0..=1.0).contains(&share), "tolerance share must be 0 to 1, got {share}");
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is rounded down, and the cast takes 65,536 to 65,535"
        )]
        let parts = (share * 65_536.0) as u16;
        Self { kind: Kind::Share(parts) }
    }

    /// How late a timer with this delay may be.
    pub(crate) fn of(self, delay: Duration) -> Duration {
        match self.kind {
            Kind::Time(time) => time,
            Kind::Share(parts) => {
                let nanos = (delay.as_nanos() * u128::from(parts)) >> u16::BITS;
                u64::try_from(nanos).map_or(Duration::MAX, Duration::from_nanos)
            }
        }
    }
}

impl Sleep {
    /// Lets this be late, so that it fires together with others and costs less among very many: see [`Tolerance`].
    ///
    /// A share is a part of the time that is left. A second call counts from the deadline to which the first one rounded.
    /// [`deadline`](Self::deadline) then tells the instant to which the deadline was rounded up, at which this is ready.
    /// [`reset`](Self::reset) and [`reset_after`](Self::reset_after) keep the tolerance, as a time. A tolerance of zero
    /// ends it. A deadline that has passed stays as it is.
    ///
    /// # Precision
    /// Never early. Late by less than the tolerance plus the machine's wake-up time, or by as much as a timer without a
    /// tolerance ([precision](crate::TimingWheel#precision)), whichever is more.
    ///
    /// # Panics
    /// As [`time::sleep`](crate::time::sleep), for a sleep that is made there. A sleep of a wheel never panics.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::time::Duration;
    /// use timingwheel::{TimingWheel, Tolerance};
    /// use tokio::time::Instant;
    ///
    /// let wheel = TimingWheel::new();
    /// let minute = Duration::from_secs(60);
    /// let exact = Instant::now() + minute;
    /// let sleep = wheel.sleep(minute).with_tolerance(Tolerance::time(Duration::from_secs(5)));
    /// assert!(sleep.deadline() >= exact);
    /// assert!(sleep.deadline() < exact + Duration::from_secs(5));
    /// # }
    /// ```
    #[track_caller]
    pub fn with_tolerance(mut self, tolerance: Tolerance) -> Self {
        let (deadline, has_elapsed) = (self.deadline_nanos(), self.is_elapsed());
        let now = self.now_on_wheel();
        self.tolerate(now, deadline, Some(tolerance));
        if !has_elapsed {
            self.move_to(deadline, Some(now));
        }
        self
    }

    /// Moves the deadline as [`reset`](Self::reset) does, but with another tolerance than before, which later resets keep. A
    /// share is a part of the time from now until `deadline`.
    ///
    /// # Panics
    /// As [`with_tolerance`](Self::with_tolerance).
    #[track_caller]
    pub fn reset_with_tolerance(self: Pin<&mut Self>, deadline: Instant, tolerance: Tolerance) {
        let (this, deadline) = (self.get_mut(), nanos(deadline));
        let now = this.now_on_wheel();
        this.tolerate(now, deadline, Some(tolerance));
        this.move_to(deadline, Some(now));
    }

    /// Gives the timer this tolerance for this deadline. `None` changes nothing.
    pub(super) fn tolerate(&mut self, now: Nanos, deadline: Nanos, tolerance: Option<Tolerance>) {
        if let Some(tolerance) = tolerance {
            let left = Duration::from_nanos(deadline.0.saturating_sub(now.0));
            self.set_tolerance(Tolerance::time(tolerance.of(left)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_rounded_down() {
        let of = |share, nanos| Tolerance::share(share).of(Duration::from_nanos(nanos)).as_nanos();
        assert_eq!(of(0.125, 8_000_000), 1_000_000);
        assert_eq!(of(0.0, u64::MAX), 0);
        assert!((99_981..=100_000).contains(&of(0.1, 1_000_000)));
        assert!((999_981..1_000_000).contains(&of(1.0, 1_000_000)));
        assert!(of(1.0, u64::MAX) > u128::from(u64::MAX / 65_536 * 65_534));
    }
}
