//! A timer of Linux, which the runtime's own poller watches.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::process;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::net::unix::pipe;
use tokio::task::coop;

/// Whether this system has such timers.
pub(crate) const EXISTS: bool = true;

/// A timer of Linux that the runtime's own poller watches, as it watches sockets.
///
/// A process and its child by `fork` have it in common, and the poller too. So it belongs to the process that made it,
/// and a child neither sets it nor takes it out of the poller.
#[derive(Debug)]
pub(crate) struct TimerFd {
    /// The timerfd. A pipe's receiver is the only type of tokio's that takes any file descriptor without `unsafe`.
    /// Nobody reads from it: that it is readable says all.
    ///
    /// `Some` until this is dropped.
    watched: Option<pipe::Receiver>,
    waker: Waker,
    process: u32,
}

impl TimerFd {
    /// An error if the system gives none: it may be forbidden, or the process may be short of descriptors.
    #[track_caller]
    pub(crate) fn in_current_runtime(waker: Waker) -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        let watched = Some(pipe::Receiver::from_owned_fd_unchecked(timer)?);
        let timer = Self { watched, waker, process: process::id() };
        timer.await_next();
        Ok(timer)
    }

    /// Has it call after `delay`, and not before.
    pub(crate) fn set(&self, delay: Duration) {
        if self.process != process::id() {
            return;
        }
        let never = Timespec { tv_sec: 0, tv_nsec: 0 };
        // For the system zero means never.
        let delay = delay.max(Duration::from_nanos(1));
        // The seconds in 64 bits of nanoseconds fit into an `i64`.
        let delay = Timespec { tv_sec: delay.as_secs().cast_signed(), tv_nsec: delay.subsec_nanos().into() };
        let once = Itimerspec { it_interval: never, it_value: delay };
        // It fails only for a wrong descriptor or a wrong time. These are right.
        let set = timerfd_settime(self.watched(), TimerfdTimerFlags::empty(), &once);
        debug_assert!(set.is_ok(), "{set:?}");
    }

    fn watched(&self) -> &pipe::Receiver {
        self.watched.as_ref().expect("only `drop` takes it")
    }

    /// Has it call its waker when it fires next.
    pub(crate) fn await_next(&self) {
        let (watched, mut cx) = (self.watched(), Context::from_waker(&self.waker));
        loop {
            // This tells tokio that there is nothing to read, so that tokio waits for the next event. To read would
            // be a system call.
            let _nothing: io::Result<()> = watched.try_io(|| Err(io::ErrorKind::WouldBlock.into()));
            // Unconstrained: this takes nothing from the budget of the task that happens to be polled.
            let readable = pin!(coop::unconstrained(poll_fn(|cx| watched.poll_read_ready(cx))));
            match readable.poll(&mut cx) {
                // It has fired again meanwhile. The caller reads the clock after this, so it misses nothing.
                Poll::Ready(Ok(())) => {}
                // An error means that the runtime ends, and the wheel with it.
                Poll::Ready(Err(_)) | Poll::Pending => break,
            }
        }
    }
}

impl Drop for TimerFd {
    fn drop(&mut self) {
        if self.process != process::id() {
            // To drop it would take the parent's timerfd out of the poller.
            std::mem::forget(self.watched.take());
        }
    }
}
