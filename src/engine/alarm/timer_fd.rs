//! A timer of Linux's that the runtime's own poller watches, as it watches sockets.

use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::net::unix::pipe;
use tokio::task::coop;

use crate::platform::contain::without_a_message;

#[derive(Debug)]
pub(super) struct TimerFd {
    /// What tokio takes without `unsafe` for any file descriptor. It is no pipe, and nobody reads from it: that it is
    /// readable is all that it has to say.
    watched: pipe::Receiver,
    waker: Waker,
}

impl TimerFd {
    /// `None` where the runtime has no I/O driver, or the process no file descriptor left.
    pub(super) fn in_current_runtime(waker: Waker) -> Option<Self> {
        if cfg!(panic = "abort") && !process_has_poller() {
            return None;
        }
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer: OwnedFd = timerfd_create(TimerfdClockId::Monotonic, flags).ok()?;
        // tokio panics where there is no driver, and offers no way to ask.
        let watched = without_a_message(|| pipe::Receiver::from_owned_fd_unchecked(timer))?.ok()?;
        let timer = Self { watched, waker };
        timer.await_next();
        Some(timer)
    }

    /// Has it call `delay` from now, and not before. A system call.
    pub(super) fn set(&self, delay: Duration) {
        let never = Timespec { tv_sec: 0, tv_nsec: 0 };
        // Zero would be never.
        let delay = delay.max(Duration::from_nanos(1));
        // As many seconds as 64 bits of nanoseconds have fit.
        let delay = Timespec { tv_sec: delay.as_secs().cast_signed(), tv_nsec: delay.subsec_nanos().into() };
        let once = Itimerspec { it_interval: never, it_value: delay };
        // It fails for a wrong descriptor or time only, which these are not.
        let set = timerfd_settime(&self.watched, TimerfdTimerFlags::empty(), &once);
        debug_assert!(set.is_ok(), "{set:?}");
    }

    /// Has it call its waker the next time that it fires.
    pub(super) fn await_next(&self) {
        let mut cx = Context::from_waker(&self.waker);
        loop {
            // Told that there is nothing to read, tokio waits for the next event. To read would be a system call.
            let _nothing: io::Result<()> = self.watched.try_io(|| Err(io::ErrorKind::WouldBlock.into()));
            // Unconstrained: this is no step of the task that happens to be polled.
            let readable = pin!(coop::unconstrained(poll_fn(|cx| self.watched.poll_read_ready(cx))));
            match readable.poll(&mut cx) {
                // It has fired meanwhile. Whoever asked is about to look at the clock.
                Poll::Ready(Ok(())) => {}
                // An error: the runtime ends, and with it the wheel.
                Poll::Ready(Err(_)) | Poll::Pending => break,
            }
        }
    }
}

/// Whether this process has any poller, as each runtime with an I/O driver has. For where a panic, by which alone tokio
/// says that there is no driver, would end the process: so it ends in a runtime without one only if another has one.
fn process_has_poller() -> bool {
    let Ok(files) = std::fs::read_dir("/proc/self/fd") else { return true };
    let mut targets = files.flatten().filter_map(|file| std::fs::read_link(file.path()).ok());
    targets.any(|target| target.to_string_lossy().contains("[eventpoll]"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_with_an_io_driver_makes_a_poller() {
        let _runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().expect("a runtime");
        assert!(process_has_poller());
    }
}
