//! The timers by which the runtime's park calls our wakers.
//!
//! | runtime | timers | precision |
//! |---|---|---|
//! | multi-thread, with an I/O driver, on Linux | a timerfd | some 50 µs |
//! | current-thread, the same | a timerfd while the clock runs, and tokio's timer, which follows a paused clock | some 50 µs, exact while paused |
//! | no I/O driver, another system, or without the feature `timerfd` | tokio's timer | a millisecond |
//! | multi-thread with neither an I/O driver nor timers | none: the watchdog's thread wakes the driver's task | some 100 µs, after all that is ready |
//!
//! A turner sets them in the park, and an inserter with an earlier time on any thread.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::coop;
use tokio::time::{Sleep, sleep_until};

use super::timer_fd::TimerFd;
use crate::platform::catch_panic::without_a_message;
use crate::platform::clock::Clock;
use crate::wheel::Nanos;

/// The timers of one wheel.
#[derive(Debug)]
pub(crate) struct ParkTimers {
    timer_fd: Option<TimerFd>,
    tokio_timer: Option<TokioTimer>,
    /// Whether an inserter has set them since the last turn.
    pub(super) brought_forward: bool,
    /// In a model: what the timers are set for.
    #[cfg(all(test, loom))]
    pub(super) set_for: Nanos,
}

impl ParkTimers {
    /// No timers: before the driver begins, after it has ended, and in a model.
    pub(crate) const fn none() -> Self {
        Self {
            timer_fd: None,
            tokio_timer: None,
            brought_forward: false,
            #[cfg(all(test, loom))]
            set_for: Nanos::MAX,
        }
    }

    /// The timers of the current runtime. `pausable` tells whether its clock can be paused. A timerfd calls `by_fd`,
    /// and tokio's timer calls `by_tokio`.
    pub(crate) fn of_current_runtime(pausable: bool, by_fd: Waker, by_tokio: Waker) -> Self {
        let mut timers = Self::none();
        timers.timer_fd = TimerFd::in_current_runtime(by_fd);
        // tokio refuses a timer by a panic. Where a panic ends the process, tokio is asked only if there is no other
        // way.
        let needs_tokio_timer = !timers.has_timer_fd() && cfg!(panic = "unwind");
        if pausable || needs_tokio_timer {
            timers.tokio_timer = TokioTimer::in_current_runtime(by_tokio);
        }
        timers
    }

    /// Whether one of them is a timerfd. A timerfd calls even if its time has passed when it is set.
    pub(crate) const fn has_timer_fd(&self) -> bool {
        self.timer_fd.is_some()
    }

    /// Whether one of them is tokio's. tokio's timer follows a paused clock.
    pub(crate) const fn has_tokio_timer(&self) -> bool {
        self.tokio_timer.is_some()
    }

    /// For the timerfd's waker, which is called only once: has it called the next time too.
    pub(super) fn await_timer_fd(&self) {
        if let Some(timer_fd) = &self.timer_fd {
            timer_fd.await_next();
        }
    }

    /// Has them call at `at`. Returns whether that time has come already for tokio's timer, so that this timer will not
    /// call. A timerfd calls in any case.
    pub(super) fn set(&mut self, clock: &Clock, now: Nanos, at: Nanos, paused: bool) -> bool {
        #[cfg(all(test, loom))]
        {
            self.set_for = at;
        }
        // A timerfd goes by the real clock. If nothing is to be waited for it is left as it is, and calls for nothing
        // once at the most.
        if let Some(timer_fd) = &self.timer_fd
            && !paused
            && at < Nanos::MAX
        {
            timer_fd.set(Duration::from_nanos(at.0.saturating_sub(now.0)));
        }
        self.tokio_timer.as_mut().is_some_and(|timer| timer.set(clock, at))
    }
}

/// One of tokio's timers. It is there only while something is pending: without it, an idle clock that is paused stands
/// still.
struct TokioTimer {
    timer: Pin<Box<Option<Sleep>>>,
    runtime: Handle,
    waker: Waker,
}

impl TokioTimer {
    /// `None` if the runtime has no timers.
    fn in_current_runtime(waker: Waker) -> Option<Self> {
        let runtime = Handle::current();
        // tokio panics if the runtime has no timers, and offers no way to ask.
        without_a_message(|| drop(tokio::time::sleep(Duration::ZERO)))?;
        Some(Self { timer: Box::pin(None), runtime, waker })
    }

    /// Returns whether the time has come already, so that the timer will not call.
    fn set(&mut self, clock: &Clock, at: Nanos) -> bool {
        if at == Nanos::MAX {
            self.timer.set(None);
            return false;
        }
        let deadline = clock.instant(at);
        match self.timer.as_mut().as_pin_mut() {
            Some(timer) => timer.reset(deadline),
            None => {
                // A thread that is about to end has left its runtime, and cannot enter one.
                let timer = without_a_message(|| {
                    let _runtime = self.runtime.enter();
                    sleep_until(deadline)
                });
                if timer.is_none() {
                    return true;
                }
                self.timer.set(timer);
            }
        }
        let timer = self.timer.as_mut().as_pin_mut().expect("set above");
        // Unconstrained: this takes nothing from the budget of the task that happens to be polled.
        Pin::new(&mut coop::unconstrained(timer)).poll(&mut Context::from_waker(&self.waker)).is_ready()
    }
}

impl fmt::Debug for TokioTimer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokioTimer").field("timer", &self.timer).finish_non_exhaustive()
    }
}
