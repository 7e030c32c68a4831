//! What the watchdog's thread sleeps on: a timerfd. Other threads put it off without waking the thread.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

#[derive(Debug)]
pub(super) struct PatrolTimer {
    timer: OwnedFd,
}

impl PatrolTimer {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { timer: timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)? })
    }

    /// Ends the [`wait`](Self::wait) after `delay`, instead of when it was to end before. `None` means never.
    pub(super) fn set(&self, delay: Option<Duration>) {
        let never = Timespec { tv_sec: 0, tv_nsec: 0 };
        let delay = delay.map_or(never, |delay| {
            let delay = delay.max(Duration::from_nanos(1));
            Timespec { tv_sec: delay.as_secs().cast_signed(), tv_nsec: delay.subsec_nanos().into() }
        });
        let once = Itimerspec { it_interval: never, it_value: delay };
        // It fails only for a wrong descriptor or a wrong time. These are right.
        let set = timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once);
        debug_assert!(set.is_ok(), "{set:?}");
    }

    pub(super) fn wait(&self) {
        // If a signal interrupts it, the thread patrols for nothing.
        _ = rustix::io::read(&self.timer, &mut [0; 8]);
    }
}
