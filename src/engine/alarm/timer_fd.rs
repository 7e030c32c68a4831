//! A timer of Linux that the runtime's own poller watches, as it watches sockets.

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

use crate::platform::catch_panic::without_a_message;

#[derive(Debug)]
pub(super) struct TimerFd {
    /// The timerfd. A pipe's receiver is the only type of tokio's that takes any file descriptor without `unsafe`.
    /// Nobody reads from it: that it is readable says all.
    watched: pipe::Receiver,
    waker: Waker,
}

impl TimerFd {
    /// `None` if the runtime has no I/O driver, or if the process has no file descriptor left.
    pub(super) fn in_current_runtime(waker: Waker) -> Option<Self> {
        if cfg!(panic = "abort") && !process_has_poller() {
            return None;
        }
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer: OwnedFd = timerfd_create(TimerfdClockId::Monotonic, flags).ok()?;
        // tokio panics if the runtime has no I/O driver, and offers no way to ask.
        let watched = without_a_message(|| pipe::Receiver::from_owned_fd_unchecked(timer))?.ok()?;
        let timer = Self { watched, waker };
        timer.await_next();
        Some(timer)
    }

    /// Has it call after `delay`, and not before. This is a system call.
    pub(super) fn set(&self, delay: Duration) {
        let never = Timespec { tv_sec: 0, tv_nsec: 0 };
        // For the system zero means never.
        let delay = delay.max(Duration::from_nanos(1));
        // The seconds in 64 bits of nanoseconds fit into an `i64`.
        let delay = Timespec { tv_sec: delay.as_secs().cast_signed(), tv_nsec: delay.subsec_nanos().into() };
        let once = Itimerspec { it_interval: never, it_value: delay };
        // It fails only for a wrong descriptor or a wrong time. These are right.
        let set = timerfd_settime(&self.watched, TimerfdTimerFlags::empty(), &once);
        debug_assert!(set.is_ok(), "{set:?}");
    }

    /// Has it call its waker when it fires next.
    pub(super) fn await_next(&self) {
        let mut cx = Context::from_waker(&self.waker);
        loop {
            // This tells tokio that there is nothing to read, so that tokio waits for the next event. To read would be
            // a system call.
            let _nothing: io::Result<()> = self.watched.try_io(|| Err(io::ErrorKind::WouldBlock.into()));
            // Unconstrained: this takes nothing from the budget of the task that happens to be polled.
            let readable = pin!(coop::unconstrained(poll_fn(|cx| self.watched.poll_read_ready(cx))));
            match readable.poll(&mut cx) {
                // It has fired again meanwhile. The caller reads the clock after this, so it misses nothing.
                Poll::Ready(Ok(())) => {}
                // An error means that the runtime ends, and the wheel with it.
                Poll::Ready(Err(_)) | Poll::Pending => break,
            }
        }
    }
}

/// Whether this process has any poller. Each runtime with an I/O driver has one.
///
/// This is for programs in which a panic ends the process, because tokio says only by a panic that a runtime has no I/O
/// driver. With this check such a program ends only if another of its runtimes has an I/O driver.
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
