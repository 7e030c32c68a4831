//! Who turns the wheel, and when.
//!
//! **The runtime's park does.** Where a worker parks, or looks at the runtime's input between two tasks, it calls the
//! waker of a timer that the wheel has there (see `alarm::timers`), and that waker turns the wheel then and there: hands
//! out what is due, wakes it, and arms the timer for the next turn. The tasks that it wakes are only queued.
//!
//! | when | who turns | until |
//! |---|---|---|
//! | the timer of the runtime's park has come | its waker, [`turner`] | nothing is due, or 16 batches or a millisecond are over |
//! | more was due than that | the same when the poller is looked at next; with tokio's timer, and where the clock may be paused, the driver's task | the same |
//! | the last timer was cancelled, or an earlier one came, on a paused clock | the driver's task | the same |
//! | a worker blocks, and nobody looks at the poller | the watchdog wakes the driver's task, whose worker parks next and turns there | the same |
//!
//! The driver's task is the one task of a wheel. Besides, it notices the end of the last handle, and ends the wheel with
//! the runtime, as it is dropped then.

mod shards;
#[cfg(all(test, not(loom)))]
mod tests;
mod turner;
mod wake;

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

pub(crate) use shards::Shards;

use crate::engine::alarm::Alarm;
use crate::platform::clock::Clock;
use crate::wheel::{Nanos, Resolution};
use turner::{Left, Turner};

/// How long after the last handle went the driver looks again whether timers are left, and how long it then waits at
/// the most until it does once more; see `shard::holders`.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
const LOOK_AGAIN_AT_THE_LATEST: Duration = Duration::from_secs(60);

/// The task. Ready when the wheel has ended; dropped before, with its runtime, it ends the wheel.
#[derive(Debug)]
pub(crate) struct Driver {
    turner: Arc<Turner>,
    /// When to look again whether a timer is left, once no handle is, and how long after the last time that is.
    next_look: Option<(Nanos, Duration)>,
}

/// Why a driver cannot begin.
#[derive(Debug)]
pub(crate) enum CannotDrive {
    /// The runtime's clock can be paused, and there is no timer that follows it.
    NoTimers,
    /// There is no thread for the watchdog.
    NoThread(io::Error),
}

impl Driver {
    pub(crate) fn new(shards: Arc<Shards>, alarm: Arc<Alarm>, clock: Clock, resolution: Resolution) -> Self {
        Self { turner: Arc::new(Turner::new(shards, alarm, clock, resolution)), next_look: None }
    }

    /// Has the current runtime's park turn the wheel. `workers` is how many the runtime has.
    pub(crate) fn begin(&self, workers: usize) -> Result<(), CannotDrive> {
        let alarm = &self.turner.alarm;
        let timers = self.turner.timers();
        let (has_timer_fd, has_tokio_timer) = (timers.have_timer_fd(), timers.have_tokio_timer());
        if alarm.is_pausable() && !has_tokio_timer {
            return Err(CannotDrive::NoTimers);
        }
        alarm.set_timers(timers);
        let by_watchdog = !has_timer_fd && !has_tokio_timer;
        // A single worker that blocks has nobody to wake.
        if by_watchdog || workers > 1 {
            let watched = alarm.have_watched(by_watchdog);
            // Without it a worker that blocks holds up others, as it does tokio's timers.
            if by_watchdog {
                watched.map_err(CannotDrive::NoThread)?;
            }
        }
        // So that what is inserted sets the timers by itself from now on, before the task is polled.
        self.turner.turn();
        Ok(())
    }

    /// Whether no timer is left, once no handle is.
    fn is_unused(&mut self) -> bool {
        let now = self.turner.clock.now();
        let (at, pause) = self.next_look.get_or_insert((now.after(LOOK_AGAIN), LOOK_AGAIN));
        if *at <= now {
            *pause = (*pause * 2).min(LOOK_AGAIN_AT_THE_LATEST);
            *at = now.after(*pause);
        }
        self.turner.alarm.set_look_again(*at);
        self.turner.shards.are_unused()
    }
}

impl Future for Driver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let turner = this.turner.clone();
        turner.alarm.register_driver(cx.waker());
        // The waker is registered first, so whoever notes something later wakes the driver again.
        turner.alarm.notes().tell();
        let is_orphaned = turner.alarm.is_orphaned();
        if is_orphaned && this.is_unused() {
            return Poll::Ready(());
        }
        if is_orphaned || turner.alarm.is_awake() {
            match turner.turn() {
                Left::Nothing => {}
                Left::Rest(due_since) => turner.alarm.arm_rest(due_since),
                Left::End => return Poll::Ready(()),
            }
        } else if turner.shards.have_ended() {
            return Poll::Ready(());
        }
        Poll::Pending
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.turner.shards.end();
        self.turner.alarm.end();
        self.turner.alarm.notes().ended();
    }
}

/// For models, which play the runtime's park.
#[cfg(all(test, loom))]
impl Driver {
    pub(crate) fn park(&self) -> impl FnOnce() + 'static {
        let turner = self.turner.clone();
        move || turner.turn_in_park()
    }
}
