//! How often a busy wheel is turned: at every second tick.
//!
//! A turn has a price that does not depend on how many tasks it wakes: the poller returns, the timer is set anew, another
//! worker is woken to help, and both look for work and go back to sleep. So where many timers fire in each tick, the wheel
//! is turned half as often, and each timer waits half a tick longer on average. tokio, which rounds up twice, is as late.

use std::time::Duration;

use crate::wheel::{Nanos, Resolution};

/// A turn that hands out this many timers finds the wheel busy.
const BUSY: usize = 64;

/// A wheel with a longer tick is turned seldom enough.
const LONGEST_TICK: Duration = Duration::from_millis(1);

/// For a turn at `now` that has handed out `fired` timers: the time before which there need be no other turn. Zero if
/// the wheel is not busy.
pub(super) fn next_not_before(now: Nanos, fired: usize, resolution: Resolution) -> Nanos {
    let tick = resolution.tick();
    if fired < BUSY || tick > LONGEST_TICK {
        return Nanos::ZERO;
    }
    // A time on a border belongs to the ticks that end there, and they are over.
    resolution.round_up_within(now.after(Duration::from_nanos(1)), tick * 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_tick(tick: Duration) -> impl Fn(u64, usize) -> u64 {
        let resolution = Resolution::new(tick).expect("not zero");
        move |micros, fired| {
            let now = Nanos::from_duration(Duration::from_micros(micros));
            next_not_before(now, fired, resolution).0 / 1_000
        }
    }

    #[test]
    fn a_busy_wheel_is_turned_at_every_second_tick() {
        let not_before = with_tick(Duration::from_millis(1));
        assert_eq!([10_000, 10_001, 11_000, 11_999].map(|now| not_before(now, BUSY)), [12_000; 4]);
        assert_eq!(not_before(12_000, 1_000), 14_000);
        assert_eq!(with_tick(Duration::from_micros(100))(10_050, BUSY), 10_200);
    }

    #[test]
    fn a_wheel_that_is_not_busy_or_has_a_long_tick_may_be_turned_at_once() {
        assert_eq!(with_tick(Duration::from_millis(1))(10_050, BUSY - 1), 0);
        assert_eq!(with_tick(Duration::from_millis(2))(10_050, 1_000), 0);
    }
}
