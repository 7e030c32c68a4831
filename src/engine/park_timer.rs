//! The timer in the runtime's park that calls for a turn: a timerfd, or one of tokio's timers; never both.
//!
//! | runtime | timer | precision |
//! |---|---|---|
//! | multi-thread, on Linux | a timerfd in its poller | some 50 µs |
//! | current-thread whose clock can be paused | one of tokio's timers, which follows a paused clock | a millisecond |
//! | any other current-thread, on Linux, with a tick of less than a millisecond | a timerfd | some 50 µs |
//! | any other | one of tokio's timers | a millisecond |
//!
//! If the system gives no timerfd, one of tokio's timers takes its place.
//!
//! To set a timerfd is a system call. To set tokio's timer is one too, a write that wakes tokio's own driver, if the time is
//! earlier than that of all other timers of the runtime.
//!
//! tokio has no way to ask whether a runtime has an I/O driver or timers. Where the one that is needed is missing, tokio
//! panics in its own words as the wheel is made.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use tokio::runtime::{Handle, Id, RuntimeFlavor, worker_index};
use tokio::task::coop;
use tokio::time::{Sleep, sleep_until};

use crate::platform::clock::{Clock, instant};
use crate::platform::linux::{self, TimerFd};
use crate::telemetry::counters::Counters;
use crate::wheel::Nanos;

/// How far ahead tokio's timer is set to call as soon as it can: it then calls in tokio's next tick.
const TOKIOS_TICK: Duration = Duration::from_millis(1);

#[derive(Debug, Default)]
pub(crate) enum ParkTimer {
    /// Before the driver begins, after it has ended, and in a model.
    #[default]
    None,
    /// With the runtime whose poller watches it.
    Fd(TimerFd, Id),
    Tokio(TokioTimer),
}

impl ParkTimer {
    /// The timer of the current runtime for a wheel with this clock and tick. It calls `turn`.
    ///
    /// # Panics
    /// As tokio does, if the runtime lacks the I/O driver or the timers that are needed.
    #[track_caller]
    pub(crate) fn of_current_runtime(
        clock: &Clock,
        tick: Duration,
        counters: &Counters,
        turn: Waker,
    ) -> Self {
        let runtime = Handle::current();
        let is_multi_thread = runtime.runtime_flavor() == RuntimeFlavor::MultiThread;
        let is_precise = is_multi_thread || (tick < TOKIOS_TICK && !clock.is_pausable);
        if linux::HAS_TIMERFDS && is_precise {
            match TimerFd::in_current_runtime(turn.clone()) {
                Ok(timer_fd) => return Self::Fd(timer_fd, runtime.id()),
                Err(error) => counters.not_given("a timerfd", error),
            }
        }
        let call = Arc::new(Call { setting: AtomicUsize::new(NOT_SETTING), turn });
        // tokio panics here if the runtime has no timers.
        let timer = Box::pin(sleep_until(instant(Nanos::MAX)));
        Self::Tokio(TokioTimer { timer, at: Nanos::MAX, runtime, is_multi_thread, call })
    }

    pub(super) const fn is_fd(&self) -> bool {
        matches!(self, Self::Fd(..))
    }

    /// Has it call at `at`. Returns whether that time has come already for tokio's timer, so that this timer will not
    /// call. A timerfd calls in any case.
    pub(super) fn set(&mut self, now: Nanos, at: Nanos) -> bool {
        match self {
            // If there is nothing to wait for it is left as it is, and calls for nothing once at the most.
            Self::Fd(timer_fd, _) if at < Nanos::MAX => {
                timer_fd.set(Duration::from_nanos(at.0.saturating_sub(now.0)));
                false
            }
            Self::Fd(..) | Self::None => false,
            Self::Tokio(timer) => timer.set(at),
        }
    }

    /// How many system calls were made for a timerfd so far; `None` for any other.
    #[cfg(all(test, not(loom), feature = "timerfd", target_os = "linux"))]
    pub(super) fn calls(&self) -> Option<usize> {
        match self {
            Self::Fd(timer_fd, _) => Some(timer_fd.calls.load(Ordering::Relaxed)),
            Self::Tokio(_) | Self::None => None,
        }
    }

    /// How soon it can call, if any worker's park may take the call. `None` where the driver's task has to turn instead,
    /// because there is no other worker, or where the clock can be paused, because a test would see the time pass.
    pub(super) const fn soonest_call(&self) -> Option<Duration> {
        match self {
            Self::Fd(..) => Some(Duration::ZERO),
            Self::Tokio(TokioTimer { is_multi_thread: true, .. }) => Some(TOKIOS_TICK),
            Self::Tokio(_) | Self::None => None,
        }
    }

    /// A timerfd calls only once: has it call the next time too. It may forget a call that it owes, so it has to be set after
    /// this.
    pub(super) fn await_next(&self) {
        if let Self::Fd(timer_fd, _) = self {
            timer_fd.await_next();
        }
    }

    /// Whether it is another process's: this one is a child by `fork`, which must not set the timerfd of its parent.
    ///
    /// Workers of the wheel's own runtime need not ask for their process, which would be a second system call each time: a
    /// child has none of them, unless it runs its parent's runtime. It then takes all of its parent's events anyway,
    /// because both have one poller.
    pub(super) fn is_of_another_process(&self) -> bool {
        let Self::Fd(timer_fd, runtime) = self else { return false };
        let is_own_worker =
            worker_index().is_some() && Handle::try_current().is_ok_and(|current| current.id() == *runtime);
        !is_own_worker && !timer_fd.is_mine()
    }
}

/// One of tokio's timers. It is registered only while something is pending, because a registered timer would move an idle
/// clock that is paused.
#[derive(Debug)]
pub(crate) struct TokioTimer {
    timer: Pin<Box<Sleep>>,
    /// The time for which it was set last.
    at: Nanos,
    runtime: Handle,
    is_multi_thread: bool,
    call: Arc<Call>,
}

impl TokioTimer {
    /// Returns whether the time has come already, or the timer has called meanwhile: then it will not call.
    fn set(&mut self, at: Nanos) -> bool {
        self.call.setting.store(SETTING, Ordering::Relaxed);
        let is_due = self.set_and_poll(at);
        let has_called = self.call.setting.swap(NOT_SETTING, Ordering::AcqRel) == CALLED;
        has_called || is_due
    }

    fn set_and_poll(&mut self, at: Nanos) -> bool {
        let before = std::mem::replace(&mut self.at, at);
        if at == Nanos::MAX {
            // One that has called is not registered any more. One that is still at the end of time stays: in the first turn
            // tokio may be about to drop a future that it refused to spawn, and the runtime cannot be entered then.
            if before < at && !self.timer.is_elapsed() {
                let _runtime = self.runtime.enter();
                self.timer.set(sleep_until(instant(at)));
            }
            return false;
        }
        self.timer.as_mut().reset(instant(at));
        let waker = self.call.clone().into();
        // Unconstrained: this takes nothing from the budget of the task that happens to be polled.
        let timer = coop::unconstrained(self.timer.as_mut());
        pin!(timer).poll(&mut Context::from_waker(&waker)).is_ready()
    }
}

/// The values of `Call::setting`.
const NOT_SETTING: usize = 0;
const SETTING: usize = 1;
const CALLED: usize = 2;

/// The waker of tokio's timer. While a thread sets the timer, it leaves the turn to that thread, which holds a lock under
/// which nobody may turn. It may be called twice in one setting: by a worker while the timer is moved, and by the thread that
/// sets it as it polls the timer.
#[derive(Debug)]
struct Call {
    /// Whether a thread is setting the timer, and whether the timer has called meanwhile.
    setting: AtomicUsize,
    turn: Waker,
}

impl Wake for Call {
    fn wake(self: Arc<Self>) {
        let called = |setting| (setting != NOT_SETTING).then_some(CALLED);
        let is_left = self.setting.fetch_update(Ordering::AcqRel, Ordering::Relaxed, called).is_ok();
        if !is_left {
            self.turn.wake_by_ref();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::engine::tests::Counting;

    /// By a worker while the timer is moved, and by the thread that sets it as it polls the timer.
    #[test]
    fn each_call_of_tokios_timer_is_left_to_the_thread_that_sets_it() {
        let turns = Arc::new(Counting::default());
        let call = Arc::new(Call { setting: AtomicUsize::new(SETTING), turn: turns.clone().into() });
        call.clone().wake();
        call.clone().wake();
        assert_eq!((turns.count(), call.setting.swap(NOT_SETTING, Ordering::AcqRel)), (0, CALLED));
        call.wake();
        assert_eq!(turns.count(), 1, "nobody sets it");
    }
}
