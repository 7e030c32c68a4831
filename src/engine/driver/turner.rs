//! One turn of a wheel: hands out what is due, and arms what has it turned next.

use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::Duration;

use super::shards::{Budget, Plan, Shards, Turned};
use crate::engine::alarm::{Alarm, Timers};
use crate::platform::clock::Clock;
use crate::platform::sync::{Mutex, lock};
use crate::wheel::{Nanos, Resolution};

/// A turn that is late by so much was held up, with its whole runtime perhaps.
const STALL: Duration = Duration::from_millis(10);

/// What those share who turn a wheel: the runtime's park, by the wakers here, and the driver's task.
#[derive(Debug)]
pub(super) struct Turner {
    pub(super) shards: Arc<Shards>,
    pub(super) alarm: Arc<Alarm>,
    pub(super) clock: Clock,
    resolution: Resolution,
    /// Empty, but for its memory, from one turn to the next.
    expired: Mutex<Vec<Waker>>,
}

/// What a turn left to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// Nothing: there will be a turn in time.
    Nothing,
    /// More is due than may be done at a time, since then.
    Rest(Nanos),
    /// The wheel has ended.
    End,
}

impl Turner {
    pub(super) fn new(shards: Arc<Shards>, alarm: Arc<Alarm>, clock: Clock, resolution: Resolution) -> Self {
        Self { shards, alarm, clock, resolution, expired: Mutex::new(Vec::new()) }
    }

    /// The timers that have the current runtime's park turn the wheel.
    pub(super) fn timers(self: &Arc<Self>) -> Timers {
        let by_fd = Arc::new(ByTimerFd(self.clone())).into();
        let by_tokio = Arc::new(ByTokio(self.clone())).into();
        Timers::of_current_runtime(self.alarm.is_pausable(), by_fd, by_tokio)
    }

    pub(super) fn turn(&self) -> Left {
        let alarm = &*self.alarm;
        alarm.notes().turned();
        // Taken, because wakers are a user's code, which is not to run under the lock.
        let mut expired = std::mem::take(&mut *lock(&self.expired));
        let mut budget = Budget::of_a_turn(alarm.look_at_clock());
        let left = loop {
            let due = alarm.begin_turn();
            let now = self.clock.now();
            let due_since = self.due_since(due, now);
            match self.shards.turn(now, due_since, self.resolution, &mut budget, &mut expired) {
                Turned::Ended => break Left::End,
                Turned::More => break Left::Rest(due_since),
                Turned::Until(plan) => {
                    let is_due = alarm.arm(self.time_of(plan, now));
                    // Armed first, looked second; see `alarm`. What has come since, in the same tick but later, can
                    // wait.
                    if !is_due && !self.shards.any_before(plan.first) {
                        break Left::Nothing;
                    }
                }
            }
        };
        *lock(&self.expired) = expired;
        left
    }

    /// Since when there has been something to do. Where the clock can be paused, for ever: there what has passed is not
    /// registered.
    fn due_since(&self, due: Option<Nanos>, now: Nanos) -> Nanos {
        let due_since = due.unwrap_or(now).min(now);
        let is_late = due_since < now.before(STALL);
        // A clock that was moved by hand is not late.
        if is_late && !self.alarm.look_at_clock() {
            self.alarm.notes().stalled();
        }
        if self.alarm.is_pausable() { Nanos::ZERO } else { due_since }
    }

    /// When to turn by a plan. Where the clock may be paused, just when the first shard has something to do.
    fn time_of(&self, plan: Plan, now: Nanos) -> Nanos {
        let at = if self.alarm.is_pausable() { plan.first } else { plan.at };
        // A paused clock would go on to the time of the next look.
        if self.alarm.look_at_clock() { at } else { at.min(self.alarm.look_again_after(now)) }
    }

    /// For the wakers that the runtime's park calls.
    pub(super) fn turn_in_park(&self) {
        match self.turn() {
            Left::Nothing => {}
            Left::Rest(due_since) => self.alarm.arm_rest(due_since),
            Left::End => self.alarm.wake_to_end(),
        }
        if self.alarm.is_orphaned() {
            self.alarm.wake_to_end();
        }
    }
}

/// Called by the runtime's poller when the timerfd has fired.
struct ByTimerFd(Arc<Turner>);

impl Wake for ByTimerFd {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // First, so that it calls for what is set from now on.
        self.0.alarm.await_timer_fd();
        self.0.turn_in_park();
    }
}

/// Called by tokio when its timer has come.
struct ByTokio(Arc<Turner>);

impl Wake for ByTokio {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.0.alarm.is_left_to_setter() {
            self.0.turn_in_park();
        }
    }
}
