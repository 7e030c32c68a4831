//! The driver, which is all that moves a wheel on: who turns it, and when.
//!
//! **The runtime's park does.** When a worker parks, or polls the runtime's input between two tasks, it calls the
//! wakers of timers that are due. One of these timers is the wheel's (see `alarm::park_timers`). Its waker turns the wheel
//! at once: it hands out the timers that are due, wakes their tasks, and sets the alarm for the next turn. The tasks that it wakes
//! are only queued.
//!
//! | when | who turns |
//! |---|---|
//! | the timer in the runtime's park is due | its waker, in [`turner`] |
//! | a turn has used up its budget | the same waker when the poller is polled next; with tokio's timer, or where the clock can be paused, the driver's task |
//! | on a paused clock, when the last timer is cancelled or an earlier one is armed | the driver's task |
//! | a worker blocks, and nobody polls the poller | the watchdog wakes the driver's task; the worker that runs this task parks next, and turns in its park |
//! | the runtime has neither an I/O driver nor timers | the driver's task, which the watchdog wakes for each turn |
//! | the wheel is being made | the thread that makes it |
//!
//! A turn ends when nothing is due any more, or when its budget is used up: 16 batches of up to 256 timers, or a
//! millisecond. There is a turn for each tick in which a timer is due; for a busy wheel, one for two ticks (see [`pace`]).
//!
//! **The driver's task turns nothing as a rule.** It turns only if it was woken for that, which `next_turn` tells (see `alarm`),
//! or if no handle is left. It is the only task of a wheel that you make; a runtime's own wheel has another, its keeper. It also
//! notices when the last handle goes, see `shard::last_holder`. The runtime drops the task when the runtime ends, and the
//! task then ends the wheel.

// | file | what it has |
// |---|---|
// | this one | the driver's task |
// | `turner` | one turn, as the park's wakers and the task make it; stalls are noticed here |
// | `budget` | how much one turn may do |
// | `driven_shards` | a turn of all shards |
// | `plan` | when to turn next |
// | `pace` | when a wheel is busy, and is turned once in two ticks |
// | `wake_all` | waking what was handed out |
// | `end` | the end of a wheel: by its runtime, its last handle, or `shutdown` |

mod budget;
mod driven_shards;
mod end;
mod pace;
mod plan;
#[cfg(all(test, not(loom)))]
mod tests;
mod turner;
#[cfg(all(test, not(loom)))]
mod turner_tests;
mod wake_all;

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

pub(crate) use driven_shards::DrivenShards;

use crate::engine::alarm::Alarm;
use crate::engine::watchdog::Role;
use crate::platform::clock::Clock;
use crate::wheel::{Nanos, Resolution};
use turner::{LeftToDo, Turner};

/// The driver's task. It is ready when the wheel has ended. If its runtime drops it before, it ends the wheel.
#[derive(Debug)]
pub(crate) struct DriverTask {
    turner: Arc<Turner>,
    /// Once no handle is left: when to check again whether any timer is, and how long after the check before that is.
    recheck: Option<(Nanos, Duration)>,
}

/// Why a driver could not begin.
#[derive(Debug)]
pub(crate) enum CannotDrive {
    /// The runtime's clock can be paused, but the runtime has no timers, which alone follow a paused clock.
    NoTimers,
    /// The operating system gave the watchdog no thread, or no timer.
    NoThread(io::Error),
}

impl DriverTask {
    pub(crate) fn new(
        shards: Arc<DrivenShards>,
        alarm: Arc<Alarm>,
        clock: Clock,
        resolution: Resolution,
    ) -> Self {
        Self { turner: Arc::new(Turner::new(shards, alarm, clock, resolution)), recheck: None }
    }

    /// Has the current runtime's park turn the wheel. `workers` is the number of the runtime's workers.
    pub(crate) fn begin(&self, workers: usize) -> Result<(), CannotDrive> {
        let alarm = &self.turner.alarm;
        let timers = self.turner.timers();
        let (has_timer_fd, has_tokio_timer) = (timers.has_timer_fd(), timers.has_tokio_timer());
        if alarm.is_pausable() && !has_tokio_timer {
            return Err(CannotDrive::NoTimers);
        }
        alarm.set_timers(timers);
        if !has_timer_fd && !has_tokio_timer {
            alarm.begin_watch(Role::OnlyWaker).map_err(CannotDrive::NoThread)?;
        } else if workers > 1 {
            // With a single worker there is no other that could turn while it blocks. Without a watchdog a worker that
            // blocks may hold up the wheel, as it may hold up tokio's timers: that is no reason to refuse the wheel.
            _ = alarm.begin_watch(Role::Backup);
        }
        // After this turn inserters set the timers themselves, even before the task is first polled.
        self.turner.turn();
        Ok(())
    }
}

impl Future for DriverTask {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let turner = this.turner.clone();
        turner.alarm.register_driver(cx.waker());
        // The waker has been registered before, so what is noted after this wakes the task again.
        turner.alarm.counters().send_events();
        let is_orphaned = turner.alarm.is_orphaned();
        if is_orphaned && this.is_unused() {
            return Poll::Ready(());
        }
        // The watchdog's wake-up as a backup sets nothing: then it is the worker that turns, in its next park.
        if is_orphaned || turner.alarm.is_awake() {
            match turner.turn() {
                LeftToDo::Nothing => {}
                LeftToDo::Rest(due_since) => turner.alarm.set_for_rest(due_since),
                LeftToDo::End => return Poll::Ready(()),
            }
        } else if turner.shards.have_ended() {
            return Poll::Ready(());
        }
        Poll::Pending
    }
}

/// For models, which play the runtime's park.
#[cfg(all(test, loom))]
impl DriverTask {
    pub(crate) fn park(&self) -> impl FnOnce() + 'static {
        let turner = self.turner.clone();
        move || turner.turn_in_park()
    }
}
