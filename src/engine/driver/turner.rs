//! One turn of a wheel: hands out the timers that are due, and sets the alarm for the next turn.
//!
//! | time | is |
//! |---|---|
//! | `due`, of a turn | since when it should have been made: the time for which the alarm was set, or at which it was asked for |
//! | `due_since`, of its timers | the same, or a tick earlier if the turn covers two ticks: timers may have waited since then |
//! | `at`, of the next turn | for when the alarm is set, by the [plan](super::plan) of what the shards have to do |
//! | `not_before`, of the next turn | before this nobody has it made, if the wheel is busy (see [`pace`](super::pace)) |

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Wake, Waker};
use std::time::Duration;

use super::budget::Budget;
use super::driven_shards::{DrivenShards, WheelTurn};
use super::pace::{Pace, TurnsInTime};
use crate::engine::alarm::{Alarm, ParkTimers};
use crate::platform::clock::Clock;
use crate::platform::sync::{Mutex, lock};
use crate::wheel::{Nanos, Resolution};

/// A turn that is later than this was held up, and perhaps its whole runtime with it.
const STALL: Duration = Duration::from_millis(10);

/// What all turners of a wheel share. They are the wakers below, which the runtime's park calls, and the driver's task.
#[derive(Debug)]
pub(super) struct Turner {
    pub(super) shards: Arc<DrivenShards>,
    pub(super) alarm: Arc<Alarm>,
    pub(super) clock: Clock,
    resolution: Resolution,
    /// Since when the turn was due that was counted as a stall last. All turns of one backlog are due since one time.
    stalled_since: AtomicU64,
    turns_in_time: TurnsInTime,
    /// Empty between two turns. It is kept for its memory.
    expired: Mutex<Vec<Waker>>,
}

/// What a turn left for its caller to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeftToDo {
    /// Nothing: the alarm is set for the next turn.
    Nothing,
    /// More is due than the budget allowed. It is due since this time.
    Rest(Nanos),
    /// The wheel has ended.
    End,
}

impl Turner {
    pub(super) fn new(
        shards: Arc<DrivenShards>,
        alarm: Arc<Alarm>,
        clock: Clock,
        resolution: Resolution,
    ) -> Self {
        let stalled_since = AtomicU64::new(u64::MAX);
        let turns_in_time = TurnsInTime::default();
        Self {
            shards,
            alarm,
            clock,
            resolution,
            stalled_since,
            turns_in_time,
            expired: Mutex::new(Vec::new()),
        }
    }

    /// The timers by which the current runtime's park turns the wheel.
    pub(super) fn timers(self: &Arc<Self>) -> ParkTimers {
        let by_fd = Arc::new(ByTimerFd(self.clone())).into();
        let by_tokio = Arc::new(ByTokio(self.clone())).into();
        ParkTimers::of_current_runtime(self.alarm.is_pausable(), by_fd, by_tokio)
    }

    pub(super) fn turn(&self) -> LeftToDo {
        let alarm = &*self.alarm;
        alarm.counters().turned();
        // Taken out of the lock, because wakers are users' code, which must not run under it.
        let mut expired = std::mem::take(&mut *lock(&self.expired));
        let mut budget = Budget::of_a_turn(alarm.refresh_paused());
        let mut first = None;
        let left = loop {
            let due = alarm.begin_turn();
            let now = self.clock.now();
            let (pace, is_idle) = *first.get_or_insert_with(|| {
                let is_idle = self.turns_in_time.note(due, now);
                (Pace::of_this_turn(due, alarm.not_before()), is_idle)
            });
            let due = due.unwrap_or(now).min(now);
            self.note_stall(due, now);
            let due_since = self.due_since(pace, due);
            match self.shards.turn(now, due_since, self.resolution, &mut budget, &mut expired) {
                WheelTurn::Ended => break LeftToDo::End,
                WheelTurn::More => break LeftToDo::Rest(due),
                WheelTurn::Until(plan) => {
                    let not_before = self.not_before(pace, now, budget.fired, is_idle);
                    let is_due = alarm.set_next_turn(plan.time(alarm, now), not_before);
                    // `next_turn` is published before the shards are checked; see `alarm`. A timer that came meanwhile and
                    // is due in the same tick, but after `first`, can wait.
                    if !is_due && !self.shards.any_before(plan.first) {
                        break LeftToDo::Nothing;
                    }
                }
            }
        };
        *lock(&self.expired) = expired;
        left
    }

    fn note_stall(&self, due: Nanos, now: Nanos) {
        let is_late = due < now.before(STALL);
        // On a clock that was moved by hand a turn is not late.
        if is_late && !self.alarm.refresh_paused() {
            // Relaxed: it only says whether to count.
            let is_counted = self.stalled_since.swap(due.0, Ordering::Relaxed) == due.0;
            if !is_counted {
                self.alarm.counters().stalled();
            }
        }
    }

    /// Since when timers may have waited for a turn that is due since `due`. Where the clock can be paused this is time
    /// zero: there no timer is registered whose deadline has passed.
    fn due_since(&self, pace: Pace, due: Nanos) -> Nanos {
        if self.alarm.is_pausable() { Nanos::ZERO } else { pace.due_since(due, self.resolution) }
    }

    /// The time before which there need be no other turn, or zero. Where the clock can be paused, tests expect each on time.
    fn not_before(&self, pace: Pace, now: Nanos, fired: usize, is_idle: bool) -> Nanos {
        if self.alarm.is_pausable() {
            return Nanos::ZERO;
        }
        pace.next_not_before(now, fired, is_idle, self.resolution)
    }

    /// For the wakers that the runtime's park calls.
    pub(super) fn turn_in_park(&self) {
        match self.turn() {
            LeftToDo::Nothing => {}
            LeftToDo::Rest(due_since) => self.alarm.set_for_rest(due_since),
            LeftToDo::End => self.alarm.wake_to_check(),
        }
        if self.alarm.is_orphaned() {
            self.alarm.wake_to_check();
        }
    }
}

/// The waker that the runtime's poller calls when the timerfd has fired.
struct ByTimerFd(Arc<Turner>);

impl Wake for ByTimerFd {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Before the turn, so that the timerfd also calls for the time that the turn sets.
        self.0.alarm.await_timer_fd();
        self.0.turn_in_park();
    }
}

/// The waker that tokio calls when its timer is due.
struct ByTokio(Arc<Turner>);

impl Wake for ByTokio {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let is_left = self.0.alarm.leave_to_setter();
        if !is_left {
            self.0.turn_in_park();
        }
    }
}
