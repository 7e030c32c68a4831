//! What makes a wheel follow tokio's clock when that is paused.
//!
//! A paused clock moves when its runtime is idle, to the next of *tokio's* timers. So the driver keeps one of
//! those armed at its own next expiration, beside the alarm. When it fires, tokio has its wakers called while
//! the runtime parks; ours turns the wheel then and there, so that tasks are woken at the moment, and in the
//! order, in which tokio's own timers would have woken them.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use tokio::task::coop;
use tokio::time::{Sleep, sleep_until};

use super::Shards;
use crate::alarm::Alarm;
use crate::clock::Clock;
use crate::shard::Turn;
use crate::sync::{Mutex, lock};
use crate::wheel::Nanos;

/// How many batches are handed out from within the runtime's park. The rest is the driver's, which yields.
const BATCHES: usize = 16;

#[derive(Debug)]
pub(super) struct PausedClock {
    /// One of tokio's timers, while something is pending. Without, an idle clock stays where it is.
    timer: Pin<Box<Option<Sleep>>>,
    waker: Waker,
    clock: Clock,
}

impl PausedClock {
    pub(super) fn new(shards: Arc<Shards>, alarm: Arc<Alarm>, clock: Clock) -> Self {
        let turn_at_once = TurnAtOnce { shards, alarm, clock, expired: Mutex::new(Vec::new()) };
        Self { timer: Box::pin(None), waker: Arc::new(turn_at_once).into(), clock }
    }

    /// Arms the timer; ready if `at` has been reached.
    pub(super) fn arm(&mut self, at: Nanos) -> Poll<()> {
        // A model has no runtime, so none of tokio's timers.
        if at == Nanos::MAX || cfg!(loom) {
            self.timer.set(None);
            return Poll::Pending;
        }
        let deadline = self.clock.instant(at);
        match self.timer.as_mut().as_pin_mut() {
            Some(timer) => timer.reset(deadline),
            None => self.timer.set(Some(sleep_until(deadline))),
        }
        let timer = self.timer.as_mut().as_pin_mut().expect("set above");
        // Unconstrained: this timer is no step of the task that happens to be polled.
        Pin::new(&mut coop::unconstrained(timer)).poll(&mut Context::from_waker(&self.waker))
    }
}

struct TurnAtOnce {
    shards: Arc<Shards>,
    alarm: Arc<Alarm>,
    clock: Clock,
    /// Empty, but for its memory, from one turn to the next.
    expired: Mutex<Vec<Waker>>,
}

impl Wake for TurnAtOnce {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Taken, because wakers are a user's code, which is not to run under the lock.
        let mut expired = std::mem::take(&mut *lock(&self.expired));
        for _ in 0..BATCHES {
            if self.shards.turn(self.clock.now(), Nanos::ZERO, &mut expired) != Turn::More {
                break;
            }
        }
        *lock(&self.expired) = expired;
        // For the rest, and to arm what wakes it next.
        self.alarm.wake_driver();
    }
}
