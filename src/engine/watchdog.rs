//! The watchdog: one thread for the process, which notices when nobody turns a wheel.
//!
//! Of a runtime's parked workers only one waits on the poller. If that worker leaves the park with something to do, and
//! then blocks, nobody polls the runtime's timers any more. So the watchdog *looks* at a wheel some milliseconds after a
//! turn was due. If the turn was not made, it wakes the driver's task. Another worker runs that task, parks next, and turns
//! the wheel in its park.
//!
//! **Ground rules.** For each wheel at most one look is planned, in an ordered map that the watchdog's lock guards. So
//! planning one takes time logarithmic in the number of wheels. A thread that sets an alarm plans a look only if none
//! comes before the turn would be late: it publishes the turn's time first, and reads `Look::at` second. The watchdog's
//! thread clears `Look::at` first, and reads the turn's time second. Each has a sequentially consistent fence in
//! between, so one of them sees the other. Wheels are woken after the lock is released. `loom_models` has a model.
//!
//! **After `fork`** the child has no watchdog's thread, and the lock may be held by a thread that is not there. So the
//! child has a watchdog of its own, and leaves its parent's alone.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, PoisonError, Weak};
use std::time::Duration;
use std::{fmt, io, process, thread};

use crate::platform::clock::{nanos, stopwatch};
use crate::platform::sync::{AtomicU64, Condvar, Mutex, MutexGuard, Ordering, PerProcess, fence, lock};
use crate::wheel::Nanos;

/// A turn that is later than this makes the watchdog wake the wheel when it looks.
const LATE: Duration = Duration::from_millis(2);
/// The watchdog looks at a wheel so long after its turn was due.
const LOOK_AFTER: Duration = Duration::from_millis(3);
/// How long after it has woken a wheel it looks again.
const PAUSE: Duration = Duration::from_millis(10);
/// How long after the system gave no thread it is asked again.
const RETRY: Duration = Duration::from_secs(1);

/// The thread's stack: enough to wake a task.
const STACK_SIZE: usize = 256 * 1024;

/// A wheel, as the watchdog sees it.
pub(crate) trait Watched: Send + Sync + fmt::Debug {
    /// When the next turn is due. `None` while a turn goes on, and if there is nothing to do.
    fn turn_due(&self) -> Option<Nanos>;

    /// Called when a turn is late.
    fn wake(&self);
}

/// A wheel's side of the watchdog.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    look: OnceLock<Arc<Look>>,
}

/// What the watchdog knows of a wheel.
#[derive(Debug)]
struct Look {
    watchdog: &'static Watchdog,
    wheel: Weak<dyn Watched>,
    /// When the watchdog looks next; `u64::MAX` if that is not planned, zero once the wheel has ended. It is set under the
    /// watchdog's lock.
    at: AtomicU64,
}

impl Watch {
    /// Has the wheel watched from now on.
    pub(crate) fn begin<W: Watched + 'static>(&self, watchdog: &'static Watchdog, wheel: &Arc<W>) {
        let wheel: Weak<W> = Arc::downgrade(wheel);
        self.look.get_or_init(|| {
            watchdog.lock().wheels += 1;
            Arc::new(Look { watchdog, wheel, at: AtomicU64::new(u64::MAX) })
        });
    }

    /// Whether the wheel is to be watched, and the system has given no thread for that.
    pub(crate) fn is_missing(&self) -> bool {
        self.look.get().is_some_and(|look| look.watchdog.is_mine() && look.watchdog.lock().retry.is_some())
    }

    /// For a thread that has published `turn` as the time of the wheel's next turn: plans a look if there is none in time.
    /// Call it after a sequentially consistent fence, and under no lock. Returns the error if the system has just refused
    /// the watchdog's thread.
    #[inline]
    pub(crate) fn expect(&self, turn: Nanos) -> Option<io::Error> {
        let look = self.look.get()?;
        let at = turn.after(LOOK_AFTER);
        if look.at.load(Ordering::Relaxed) <= at.0 { None } else { look.watchdog.plan(look, at) }
    }

    /// The wheel has ended.
    pub(crate) fn end(&self) {
        if let Some(look) = self.look.get() {
            look.watchdog.forget(look);
        }
    }
}

/// The watchdog of one process.
#[derive(Debug)]
pub(crate) struct Watchdog {
    process: u32,
    state: Mutex<State>,
    /// Notified when a look is planned before all others, and when no wheel is left.
    changed: Condvar,
    spawn: fn(&'static Self) -> io::Result<()>,
}

#[derive(Debug, Default)]
struct State {
    /// By their times, and by their addresses.
    looks: BTreeMap<(Nanos, usize), Arc<Look>>,
    wheels: usize,
    has_thread: bool,
    /// When the system is asked for a thread again, after it gave none.
    retry: Option<Nanos>,
}

fn now() -> Nanos {
    nanos(stopwatch().into())
}

impl Watchdog {
    pub(crate) fn of_this_process() -> &'static Self {
        static WATCHDOGS: PerProcess<Watchdog> = PerProcess::new();
        WATCHDOGS.of(process::id(), || Self::new(spawn))
    }

    /// `spawn` has a thread [watch](Self::watch).
    pub(crate) fn new(spawn: fn(&'static Self) -> io::Result<()>) -> Self {
        let state = Mutex::new(State::default());
        Self { process: process::id(), state, changed: Condvar::new(), spawn }
    }

    /// Whether this is the process's own watchdog, and not its parent's.
    fn is_mine(&self) -> bool {
        self.process == process::id()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    #[cold]
    fn plan(&'static self, look: &Arc<Look>, at: Nanos) -> Option<io::Error> {
        if !self.is_mine() {
            return None;
        }
        let mut state = self.lock();
        if !state.has_thread {
            let now = now();
            if state.retry.is_some_and(|retry| now < retry) {
                return None;
            }
            if let Err(error) = (self.spawn)(self) {
                state.retry = Some(now.after(RETRY));
                return Some(error);
            }
            state.retry = None;
            state.has_thread = true;
        }
        let planned = Nanos(look.at.load(Ordering::Relaxed));
        // A wheel whose next turn is never needs no look.
        if at < planned {
            let address = Arc::as_ptr(look).addr();
            state.looks.remove(&(planned, address));
            look.at.store(at.0, Ordering::Relaxed);
            state.looks.insert((at, address), look.clone());
            if state.looks.first_key_value().is_some_and(|(&first, _)| first == (at, address)) {
                self.changed.notify_one();
            }
        }
        None
    }

    fn forget(&self, look: &Arc<Look>) {
        if !self.is_mine() {
            return;
        }
        let mut state = self.lock();
        // Zero: no further look is planned.
        let planned = Nanos(look.at.swap(0, Ordering::Relaxed));
        if planned == Nanos::ZERO {
            return;
        }
        state.looks.remove(&(planned, Arc::as_ptr(look).addr()));
        state.wheels -= 1;
        if state.wheels == 0 {
            self.changed.notify_one();
        }
    }

    /// What the thread does until no wheel is left.
    pub(crate) fn watch(&'static self) {
        let mut state = self.lock();
        loop {
            if state.wheels == 0 {
                state.has_thread = false;
                return;
            }
            let now = now();
            let Some(entry) = state.looks.first_entry() else {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let (at, _) = *entry.key();
            if at > now {
                let wait = Duration::from_nanos(at.0 - now.0);
                state = self.changed.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
            let look = entry.remove();
            look.at.store(u64::MAX, Ordering::Relaxed);
            drop(state);
            fence(Ordering::SeqCst);
            if let Some(wheel) = look.wheel.upgrade() {
                match wheel.turn_due() {
                    Some(due) if due.after(LATE) <= now => {
                        wheel.wake();
                        self.plan(&look, now.after(PAUSE));
                    }
                    Some(due) => _ = self.plan(&look, due.after(LOOK_AFTER)),
                    // It plans a look at the end of its turn, or as it gets something to do.
                    None => {}
                }
            }
            state = self.lock();
        }
    }
}

fn spawn(watchdog: &'static Watchdog) -> io::Result<()> {
    let thread = thread::Builder::new().name("timingwheel-watchdog".into()).stack_size(STACK_SIZE);
    thread.spawn(|| watchdog.watch()).map(drop)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// A wheel whose next turn is due at a time, and which tells when it is woken.
    #[derive(Debug)]
    struct Wheel {
        due: AtomicU64,
        woken: mpsc::Sender<()>,
    }

    impl Watched for Wheel {
        fn turn_due(&self) -> Option<Nanos> {
            Some(Nanos(self.due.load(Ordering::Relaxed))).filter(|&due| due < Nanos::MAX)
        }

        fn wake(&self) {
            self.due.store(u64::MAX, Ordering::Relaxed);
            self.woken.send(()).expect("the test waits");
        }
    }

    fn watchdog(spawn: fn(&'static Watchdog) -> io::Result<()>) -> &'static Watchdog {
        Box::leak(Box::new(Watchdog::new(spawn)))
    }

    fn wheel(watchdog: &'static Watchdog) -> (Arc<Wheel>, Watch, mpsc::Receiver<()>) {
        let (woken, is_woken) = mpsc::channel();
        let wheel = Arc::new(Wheel { due: AtomicU64::new(u64::MAX), woken });
        let watch = Watch::default();
        watch.begin(watchdog, &wheel);
        (wheel, watch, is_woken)
    }

    fn expect_at(wheel: &Wheel, watch: &Watch, due: Nanos) -> Option<io::Error> {
        wheel.due.store(due.0, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        watch.expect(due)
    }

    const SAFE: Duration = Duration::from_secs(30);

    #[test]
    fn a_wheel_that_is_not_turned_is_woken_and_one_that_is_turned_is_not() {
        let watchdog = watchdog(spawn);
        let (late, late_watch, is_woken) = wheel(watchdog);
        let (turned, turned_watch, turned_is_woken) = wheel(watchdog);
        assert!(expect_at(&turned, &turned_watch, now()).is_none());
        turned.due.store(u64::MAX, Ordering::Relaxed);
        assert!(expect_at(&late, &late_watch, now()).is_none());
        assert!(is_woken.recv_timeout(SAFE).is_ok());
        // It looked at the other one before.
        assert!(turned_is_woken.try_recv().is_err());
    }

    #[test]
    fn a_turn_that_moves_later_is_looked_at_when_it_is_late_and_an_earlier_one_before() {
        let watchdog = watchdog(spawn);
        let (wheel, watch, is_woken) = wheel(watchdog);
        let hour = Duration::from_secs(3600);
        expect_at(&wheel, &watch, now().after(hour));
        assert_eq!(watchdog.lock().looks.len(), 1);
        expect_at(&wheel, &watch, now().after(LOOK_AFTER));
        assert_eq!(watchdog.lock().looks.len(), 1, "one look for a wheel");
        assert!(is_woken.recv_timeout(SAFE).is_ok());
    }

    #[test]
    fn without_a_thread_it_says_why_once_in_a_while_and_begins_when_there_is_one() {
        static GIVES_THREADS: AtomicU64 = AtomicU64::new(0);
        let watchdog = watchdog(|watchdog| {
            if GIVES_THREADS.load(Ordering::Relaxed) == 0 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            spawn(watchdog)
        });
        let (wheel, watch, is_woken) = wheel(watchdog);
        assert!(expect_at(&wheel, &watch, now()).is_some());
        assert!(expect_at(&wheel, &watch, now()).is_none(), "it has just been said");
        assert!(watch.is_missing());
        GIVES_THREADS.store(1, Ordering::Relaxed);
        watchdog.lock().retry = Some(Nanos::ZERO);
        assert!(expect_at(&wheel, &watch, now()).is_none());
        assert!(!watch.is_missing());
        assert!(is_woken.recv_timeout(SAFE).is_ok());
    }

    #[test]
    fn its_thread_ends_with_the_last_wheel_and_another_begins_with_the_next() {
        let watchdog = watchdog(spawn);
        for _ in 0..2 {
            let (wheel, watch, is_woken) = wheel(watchdog);
            expect_at(&wheel, &watch, now());
            assert!(is_woken.recv_timeout(SAFE).is_ok());
            watch.end();
            while watchdog.lock().has_thread {
                thread::yield_now();
            }
        }
    }
}
