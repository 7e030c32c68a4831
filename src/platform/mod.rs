//! The engine's base: locks and atomics (which models replace), the clock, wakers, and what only Linux has.

pub(crate) mod clock;
#[cfg(not(all(test, loom)))]
mod short_lock;
pub(crate) mod sync;
pub(crate) mod wakers;

#[cfg(all(feature = "timerfd", not(loom), any(target_os = "linux", target_os = "android")))]
pub(crate) mod linux;

/// Stands in where there are no timerfds, and where std alone has to do.
#[cfg(not(all(feature = "timerfd", not(loom), any(target_os = "linux", target_os = "android"))))]
pub(crate) mod linux {
    use std::{io, task::Waker, time::Duration};

    pub(crate) const HAS_TIMERFDS: bool = false;

    #[derive(Debug)]
    pub(crate) enum NoTimer {}
    pub(crate) type TimerFd = NoTimer;
    pub(crate) type SleepFd = NoTimer;

    impl NoTimer {
        pub(crate) fn in_current_runtime(_waker: Waker) -> io::Result<Self> {
            Self::new()
        }

        pub(crate) fn new() -> io::Result<Self> {
            Err(io::ErrorKind::Unsupported.into())
        }

        pub(crate) fn set(&self, _delay: Duration) {
            match *self {}
        }

        pub(crate) fn await_next(&self) {
            match *self {}
        }

        pub(crate) fn is_mine(&self) -> bool {
            match *self {}
        }

        pub(crate) fn sleep(&self) {
            match *self {}
        }
    }

    pub(crate) const fn leave_own_processor() {}
}
