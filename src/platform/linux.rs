//! What only Linux has: a timer that the runtime's own poller watches, one on which a thread sleeps, and the processors on which
//! a thread may run.

use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::pin::pin;
use std::process;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use rustix::process::getpid;
use rustix::thread::{sched_getaffinity, sched_setaffinity};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::unix::AsyncFd;
use tokio::net::unix::pipe;
use tokio::task::coop;

/// Whether this system has such timers.
pub(crate) const HAS_TIMERFDS: bool = true;

/// A timer of Linux that the runtime's own poller watches, as it watches sockets.
///
/// A process and its child by `fork` have it in common, and the poller too. So it belongs to the process that made it,
/// and a child neither sets it nor takes it out of the poller. The caller of `set` makes sure of that: a thread that has to
/// ask for the number of its process pays for a second system call.
#[derive(Debug)]
pub(crate) struct TimerFd {
    /// The timerfd. A pipe's receiver is the only type of tokio's that takes any file descriptor without `unsafe`.
    /// Nobody reads from it: that it is readable says all.
    ///
    /// `Some` until this is dropped.
    watched: Option<pipe::Receiver>,
    waker: Waker,
    process: u32,
    /// How many system calls were made for it.
    #[cfg(test)]
    pub(crate) calls: std::sync::atomic::AtomicUsize,
}

impl TimerFd {
    /// An error if the system gives none: it may be forbidden, or the process may be short of descriptors.
    ///
    /// # Panics
    /// As tokio does, if the runtime has no I/O driver.
    #[track_caller]
    pub(crate) fn in_current_runtime(waker: Waker) -> io::Result<Self> {
        let timer = match create(TimerfdFlags::NONBLOCK) {
            Ok(timer) => timer,
            Err(error) => {
                assert_io_driver();
                return Err(error);
            }
        };
        let watched = Some(pipe::Receiver::from_owned_fd_unchecked(timer)?);
        Ok(Self {
            watched,
            waker,
            process: process::id(),
            #[cfg(test)]
            calls: Default::default(),
        })
    }

    /// Whether it belongs to this process, and not to its parent. A system call.
    pub(crate) fn is_mine(&self) -> bool {
        self.count_call();
        self.process == process::id()
    }

    /// Has it call after `delay`, and not before. One system call. The caller knows that it [is ours](Self::is_mine).
    pub(crate) fn set(&self, delay: Duration) {
        self.count_call();
        set(self.watched(), delay);
    }

    #[allow(clippy::unused_self, reason = "only tests count")]
    fn count_call(&self) {
        #[cfg(test)]
        self.calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }

    fn watched(&self) -> &pipe::Receiver {
        self.watched.as_ref().expect("only `drop` takes it")
    }

    /// Has it call its waker when it fires next, once.
    pub(crate) fn await_next(&self) {
        let (watched, mut cx) = (self.watched(), Context::from_waker(&self.waker));
        loop {
            // This tells tokio that there is nothing to read, so that tokio waits for the next event. To read would
            // be a system call.
            let _nothing: io::Result<()> = watched.try_io(|| Err(io::ErrorKind::WouldBlock.into()));
            // Unconstrained: this takes nothing from the budget of the task that happens to be polled.
            let readable = pin!(coop::unconstrained(poll_fn(|cx| watched.poll_read_ready(cx))));
            match readable.poll(&mut cx) {
                // It has fired again meanwhile. The caller sets it anew, so it misses nothing.
                Poll::Ready(Ok(())) => {}
                // An error means that the runtime ends, and the wheel with it.
                Poll::Ready(Err(_)) | Poll::Pending => break,
            }
        }
    }
}

/// A timer of Linux on which one thread sleeps. Others set it, which does not wake the thread before.
#[derive(Debug)]
pub(crate) struct SleepFd(OwnedFd);

impl SleepFd {
    pub(crate) fn new() -> io::Result<Self> {
        create(TimerfdFlags::empty()).map(Self)
    }

    /// Has it end a sleep after `delay`. One system call.
    pub(crate) fn set(&self, delay: Duration) {
        set(&self.0, delay);
    }

    /// Sleeps until the time for which it is set has come. It may return before.
    pub(crate) fn sleep(&self) {
        let _expirations_or_interrupted = rustix::io::read(&self.0, &mut [0; size_of::<u64>()]);
    }
}

fn create(flags: TimerfdFlags) -> io::Result<OwnedFd> {
    Ok(timerfd_create(TimerfdClockId::Monotonic, flags | TimerfdFlags::CLOEXEC)?)
}

fn set(timer: impl AsFd, delay: Duration) {
    let never = Timespec { tv_sec: 0, tv_nsec: 0 };
    // For the system zero means never.
    let delay = delay.max(Duration::from_nanos(1));
    // The seconds in 64 bits of nanoseconds fit into an `i64`.
    let delay = Timespec { tv_sec: delay.as_secs().cast_signed(), tv_nsec: delay.subsec_nanos().into() };
    let once = Itimerspec { it_interval: never, it_value: delay };
    // It fails only for a wrong descriptor or a wrong time. These are right.
    let set = timerfd_settime(timer, TimerfdTimerFlags::empty(), &once);
    debug_assert!(set.is_ok(), "{set:?}");
}

/// Panics as tokio does if the current runtime has no I/O driver. It takes no descriptor, so it does so where the process has
/// none left too.
#[track_caller]
fn assert_io_driver() {
    /// What is registered: a number that is no descriptor, so that the poller refuses it.
    struct NoFd;
    impl AsRawFd for NoFd {
        fn as_raw_fd(&self) -> RawFd {
            -1
        }
    }
    #[allow(deprecated, reason = "unsound with the descriptor of another owner, and this has none")]
    let registered = AsyncFd::try_new(NoFd);
    debug_assert!(registered.is_err(), "it is no descriptor");
}

impl Drop for TimerFd {
    fn drop(&mut self) {
        if !self.is_mine() {
            // To drop it would take the parent's timerfd out of the poller.
            std::mem::forget(self.watched.take());
        }
    }
}

/// Gives this thread the processors of the process's first thread. A thread inherits those of the thread that began it, and
/// a worker may be bound to one that it never leaves to others.
///
/// Where the system refuses, the thread stays where it is.
pub(crate) fn leave_own_processor() {
    let first_thread = Some(getpid());
    if let Ok(processors) = sched_getaffinity(first_thread) {
        let _refused: Result<(), _> = sched_setaffinity(None, &processors);
    }
}
