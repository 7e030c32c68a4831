//! How late a timer may be.

use std::time::Duration;

/// How late a timer may be: by a time, or by a share of its delay.
///
/// Deadlines of timers with tolerances are rounded up to the same instants. So such timers fire together with others
/// that are due at about the same time, and stand in one place of the wheel until then. Use them for very many timers
/// that are measured in seconds and seldom fire, such as those of idle connections. The greater the tolerance, the less
/// often the wheel is turned.
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
/// Deadlines are rounded up to points that lie 2, 4, 8 and so on ticks apart: to the widest grid that fits into the
/// tolerance. All wheels of a process count the points from one origin. A wheel whose clock can be paused counts them
/// from when it was made. On a paused clock timers fire exactly at their points. A timer is late by half of the grid on
/// average.
///
/// At a tick of 1 ms a tolerance of 1,024 ms has a grid of as much. One of 1 s has a grid of 512 ms, and wakes a process
/// twice as often. Each point of a wider grid is also a point of the narrower ones, so timers with different tolerances fire
/// together too.
///
/// A timer whose tolerance is a seventh of its delay or more waits in one place of a wheel with 32 slots or more, until it
/// fires or is reset. With an eighth, it moves once at most. With less it still fires together with others, but may move
/// through the wheel as a timer without a tolerance. A tolerance of less than two ticks counts as none. So does any
/// tolerance of a delay of zero.
///
/// In the [statistics](crate::Stats::lateness), lateness counts from the rounded deadline.
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
/// The idea comes from Linux's timer wheel, and so do 12.5 % as a share that harms nobody.
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
    /// A time.
    #[must_use]
    pub const fn time(time: Duration) -> Self {
        Self { kind: Kind::Time(time) }
    }

    /// A share of the delay, from 0 to 1: 0.125 are 12.5 %. It is rounded down to 65,536ths, and 1.0 to 65,535 of them.
    ///
    /// # Panics
    /// If `share` is not from 0 to 1. Check one that comes from outside by `(0.0..=1.0).contains(&share)`.
    #[must_use]
    #[track_caller]
    pub fn share(share: f64) -> Self {
        // Not that of a number that is none.
        assert!((0.0..=1.0).contains(&share), "tolerance share must be 0 to 1, got {share}");
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is rounded down, and the whole to the last part but one"
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
