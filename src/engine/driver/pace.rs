//! How often a busy wheel is turned: once in two ticks.
//!
//! A turn has a price that does not depend on how many tasks it wakes: the poller returns, the timer is set anew, another
//! worker is woken to help, and both look for work and go back to sleep. So where many timers fire in each tick, the wheel
//! is turned half as often, and each timer waits half a tick longer on average. tokio, which rounds up twice, is as late.
//!
//! It is the wheel that is busy here, by its timers. The runtime may be idle between turns, which makes a turn dearer.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::wheel::{Nanos, Resolution};

/// A wheel is busy after a turn that has handed out so many timers, or twice as many if the turn covered two ticks.
const BUSY: usize = 32;
/// The same on a runtime that is idle between turns: there a turn costs more than the tasks that it wakes.
const BUSY_IF_IDLE: usize = 8;

/// A turn that comes so soon after its time was called by a worker that slept.
const IN_TIME: Duration = Duration::from_micros(150);
/// After so many of them in a row the runtime is idle between turns.
pub(super) const TURNS_IN_TIME: u32 = 8;

/// A wheel with a longer tick is turned seldom enough.
const LONGEST_TICK: Duration = Duration::from_millis(1);

/// Whether the runtime is idle between turns. Where workers are busy, turns come when one looks for input, which is late
/// by half a millisecond or so: to turn the wheel less often saves nothing there.
#[derive(Debug, Default)]
pub(super) struct TurnsInTime {
    /// How many there were in a row. Relaxed: it only says how often to turn.
    in_a_row: AtomicU32,
}

impl TurnsInTime {
    /// A turn comes at `now`. One that was not due yet, as the driver's task may make it, says nothing. Returns whether the
    /// runtime is idle between turns.
    pub(super) fn note(&self, due: Option<Nanos>, now: Nanos) -> bool {
        let before = self.in_a_row.load(Ordering::Relaxed);
        let turns = match due {
            Some(due) if now.before(IN_TIME) > due => 0,
            Some(due) if due <= now => before.saturating_add(1),
            _ => before,
        };
        self.in_a_row.store(turns, Ordering::Relaxed);
        turns >= TURNS_IN_TIME
    }
}

/// How many ticks a turn covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    EachTick,
    /// The turn before found the wheel busy, and allowed no turn before this time.
    TwoTicks(Nanos),
}

impl Pace {
    /// The pace of a turn that was due since `due`, where the turn before has left `not_before`.
    pub(super) fn of_this_turn(due: Option<Nanos>, not_before: Nanos) -> Self {
        // A turn that is due later than that did not have to wait.
        if due.is_some_and(|due| due <= not_before) { Self::TwoTicks(not_before) } else { Self::EachTick }
    }

    /// Since when a turn is due that is due since `due` as far as its alarm knows. Timers may have been made since that
    /// have waited for a whole tick already.
    pub(super) fn due_since(self, due: Nanos, resolution: Resolution) -> Nanos {
        match self {
            Self::EachTick => due,
            Self::TwoTicks(not_before) => due.min(not_before.before(resolution.tick())),
        }
    }

    /// For a turn at `now` that has handed out `fired` timers: the time before which there need be no other turn. Zero if
    /// the wheel is not busy.
    pub(super) fn next_not_before(
        self,
        now: Nanos,
        fired: usize,
        is_idle: bool,
        resolution: Resolution,
    ) -> Nanos {
        let busy = if is_idle { BUSY_IF_IDLE } else { BUSY };
        let busy = match self {
            Self::EachTick => busy,
            Self::TwoTicks(_) => busy * 2,
        };
        let tick = resolution.tick();
        if fired < busy || tick > LONGEST_TICK {
            return Nanos::ZERO;
        }
        // A time on a border belongs to the ticks that end there, and they are over.
        resolution.end_of_pair(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: Duration = Duration::from_millis(1);

    fn micros(micros: u64) -> Nanos {
        Nanos::from_duration(Duration::from_micros(micros))
    }

    fn not_before(pace: Pace, tick: Duration, now: u64, fired: usize) -> Nanos {
        pace.next_not_before(micros(now), fired, false, Resolution::new(tick).expect("not zero"))
    }

    #[test]
    fn a_busy_wheel_is_turned_once_in_two_ticks() {
        for now in [10_000, 10_001, 11_000, 11_999] {
            assert_eq!(not_before(Pace::EachTick, MILLI, now, BUSY), micros(12_000));
        }
        assert_eq!(not_before(Pace::EachTick, MILLI, 12_000, 1_000), micros(14_000));
        assert_eq!(not_before(Pace::EachTick, MILLI / 10, 10_050, BUSY), micros(10_200));
    }

    #[test]
    fn a_wheel_that_is_not_busy_or_has_a_long_tick_may_be_turned_at_once() {
        assert_eq!(not_before(Pace::EachTick, MILLI, 10_050, BUSY - 1), Nanos::ZERO);
        assert_eq!(not_before(Pace::EachTick, MILLI * 2, 10_050, 1_000), Nanos::ZERO);
    }

    #[test]
    fn a_turn_that_covers_two_ticks_finds_the_wheel_busy_by_twice_as_many() {
        let pace = Pace::of_this_turn(Some(micros(11_200)), micros(12_000));
        assert_eq!(not_before(pace, MILLI, 12_000, BUSY * 2 - 1), Nanos::ZERO);
        assert_eq!(not_before(pace, MILLI, 12_000, BUSY * 2), micros(14_000));
        // It is due later than it had to wait: it covers one tick.
        let pace = Pace::of_this_turn(Some(micros(12_001)), micros(12_000));
        assert_eq!(pace, Pace::EachTick);
    }

    #[test]
    fn a_timer_may_have_waited_for_a_tick_more_than_the_alarm_of_a_busy_wheel_knows() {
        let resolution = Resolution::new(MILLI).expect("not zero");
        let due_since = |due, not_before| {
            let due = micros(due);
            Pace::of_this_turn(Some(due), micros(not_before)).due_since(due, resolution)
        };
        assert_eq!(due_since(11_900, 12_000), micros(11_000));
        assert_eq!(due_since(10_700, 12_000), micros(10_700));
        assert_eq!(due_since(20_000, 12_000), micros(20_000));
    }

    /// So a timer with a tolerance is no later on a busy wheel.
    #[test]
    fn a_busy_wheel_is_turned_at_each_time_to_which_a_tolerance_rounds() {
        for tick in [MILLI, MILLI / 10, MILLI / 1_000, Duration::from_nanos(777_777)] {
            let resolution = Resolution::new(tick).expect("not zero");
            for tolerance in (4..2_000).map(|ticks| tick * ticks) {
                let deadline = micros(250_000).after(Duration::from_nanos(1));
                let point = resolution.round_up_within(deadline, tolerance);
                let before = point.before(Duration::from_nanos(1));
                assert_eq!(
                    Pace::EachTick.next_not_before(before, BUSY, false, resolution),
                    point,
                    "{tick:?}, {tolerance:?}"
                );
            }
        }
    }

    #[test]
    fn on_an_idle_runtime_a_wheel_is_busy_with_fewer_timers() {
        let resolution = Resolution::new(MILLI).expect("not zero");
        let not_before =
            |pace: Pace, fired| pace.next_not_before(micros(12_000), fired, true, resolution) > Nanos::ZERO;
        let second = Pace::TwoTicks(micros(12_000));
        assert_eq!(
            [BUSY_IF_IDLE - 1, BUSY_IF_IDLE].map(|fired| not_before(Pace::EachTick, fired)),
            [false, true]
        );
        assert_eq!(
            [2 * BUSY_IF_IDLE - 1, 2 * BUSY_IF_IDLE].map(|fired| not_before(second, fired)),
            [false, true]
        );
    }

    #[test]
    fn a_runtime_is_idle_after_enough_turns_in_time_and_not_after_a_late_one() {
        let turns = TurnsInTime::default();
        let note = |late: u64| turns.note(Some(micros(10_000)), micros(10_000 + late));
        let note_not_due = || [None, Some(micros(10_001))].map(|due| turns.note(due, micros(10_000)));
        for late in [151, 1_000_000] {
            assert!(!note(late));
            assert!((0..TURNS_IN_TIME).all(|_| note_not_due() == [false; 2]));
            assert!((1..TURNS_IN_TIME).all(|_| !note(150)));
            assert!(note(0) && note(150));
            assert_eq!(note_not_due(), [true; 2]);
        }
    }
}
