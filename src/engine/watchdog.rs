//! The watchdog: one thread for the process, which notices when nobody turns a wheel.
//!
//! Of a runtime's parked workers only one waits on the poller. If that worker leaves the park with something to do, and
//! then blocks, nobody polls the runtime's timers any more. So the watchdog *looks* whether the turns of all wheels were made
//! in time. If one is late, it spawns an empty task on the wheel's runtime. An idle worker runs that task, parks next, and
//! turns the wheel in its park.
//!
//! | who looks | when | the next look |
//! |---|---|---|
//! | the thread | at the time of the next look | [`LOOK_AFTER`] after the earliest turn is due; [`PAUSE`] later if it has found a turn late |
//! | a thread that sets an alarm for the only wheel, and for a turn that is [`NEAR`] | when the next look would come before that turn can be late | [`LOOK_AFTER`] after the turn is due |
//!
//! So timers that come in time wake the thread only after the last of them, and if there are several wheels. The thread sleeps
//! on a timerfd. To set it is a system call for one turn in six at a tick of a millisecond, and wakes nobody. Where there is
//! none, the thread sleeps on a condition variable, and is notified if the next look moves to earlier.
//!
//! **Ground rules.** The next look is one time for all wheels. A thread that sets an alarm publishes the turn's time first,
//! and reads the time of the next look second: it plans a look if none comes soon after the turn would be late. A thread that
//! looks clears the time of the next look first, and reads the turns' times second. Each has a sequentially consistent fence
//! in between, so one of them sees the other. Workers are woken after the lock is released. `loom_models` has a model.
//!
//! **After `fork`** the child has no watchdog's thread, and the lock may be held by a thread that is not there. So the
//! child has a watchdog of its own, and leaves its parent's alone.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock, PoisonError, Weak};
use std::time::Duration;
use std::{fmt, io, process, thread};

use slab::Slab;

use crate::platform::clock::{nanos, stopwatch};
use crate::platform::linux::{SleepFd, leave_own_processor};
use crate::platform::sync::{AtomicU64, Condvar, Mutex, MutexGuard, Ordering, PerProcess, fence, lock};
use crate::wheel::Nanos;

/// A turn that is later than this makes the watchdog wake a worker when it looks.
const LATE: Duration = Duration::from_millis(2);
/// The watchdog looks so long after the earliest turn was due.
const LOOK_AFTER: Duration = Duration::from_millis(8);
/// A look is moved on for a turn that is so near. For a later one it would have to be moved back as the next short timer is
/// armed, so the thread wakes instead, and finds nothing.
const NEAR: Duration = Duration::from_millis(100);
/// How long after it has woken a worker it looks again.
const PAUSE: Duration = Duration::from_millis(10);
/// How long after the system gave no thread it is asked again.
const RETRY: Duration = Duration::from_secs(1);

/// The thread's stack: enough to spawn a task.
const STACK_SIZE: usize = 256 * 1024;

/// A wheel, as the watchdog sees it.
pub(crate) trait Watched: Send + Sync + fmt::Debug {
    /// When the next turn is due. `None` while a turn goes on, and if there is nothing to do.
    fn turn_due(&self) -> Option<Nanos>;

    /// Called when a turn is late.
    fn wake_a_worker(&self);
}

/// A wheel's side of the watchdog.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// With the wheel's place among those watched.
    watchdog: OnceLock<(&'static Watchdog, usize)>,
}

impl Watch {
    /// Has the wheel watched from now on.
    pub(crate) fn begin<W: Watched + 'static>(&self, watchdog: &'static Watchdog, wheel: &Arc<W>) {
        let wheel: Weak<W> = Arc::downgrade(wheel);
        self.watchdog.get_or_init(|| (watchdog, watchdog.add(wheel)));
    }

    /// Whether the wheel is to be watched, and the system has given no thread for that.
    pub(crate) fn is_missing(&self) -> bool {
        self.watchdog.get().is_some_and(|(watchdog, _)| watchdog.is_mine() && watchdog.lock().retry.is_some())
    }

    /// For a thread that has published `turn` as the time of the wheel's next turn: plans a look if there is none in time.
    /// Call it after a sequentially consistent fence, and under no lock. Returns the error if the system has just refused
    /// the watchdog's thread.
    #[inline]
    pub(crate) fn expect(&self, turn: Nanos) -> Option<io::Error> {
        let (watchdog, _) = self.watchdog.get()?;
        let next_look = Nanos(watchdog.next_look.load(Ordering::Relaxed));
        if next_look > turn.after(LOOK_AFTER) {
            return watchdog.plan(turn.after(LOOK_AFTER));
        }
        let comes_for_nothing = next_look < turn.after(LATE) && turn < next_look.after(NEAR);
        if comes_for_nothing && watchdog.has_one_wheel.load(Ordering::Relaxed) {
            watchdog.look_early();
        }
        None
    }

    /// For the driver, once: the wheel has ended.
    pub(crate) fn end(&self) {
        if let Some(&(watchdog, place)) = self.watchdog.get() {
            watchdog.remove(place);
        }
    }
}

/// The watchdog of one process.
#[derive(Debug)]
pub(crate) struct Watchdog {
    process: u32,
    /// When the thread looks next; `u64::MAX` while a thread looks, and if no turn is expected. It is set under the lock.
    next_look: AtomicU64,
    /// Relaxed: it only tells who looks.
    has_one_wheel: AtomicBool,
    state: Mutex<State>,
    /// On which the thread sleeps.
    timer: Option<SleepFd>,
    /// Without a timer: notified when the next look moves to earlier, and when no wheel is left.
    changed: Condvar,
    spawn: fn(&'static Self) -> io::Result<()>,
}

#[derive(Debug, Default)]
struct State {
    wheels: Slab<Weak<dyn Watched>>,
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
        Self {
            process: process::id(),
            next_look: AtomicU64::new(u64::MAX),
            has_one_wheel: AtomicBool::new(false),
            state: Mutex::new(State::default()),
            timer: SleepFd::new().ok(),
            changed: Condvar::new(),
            spawn,
        }
    }

    /// Whether this is the process's own watchdog, and not its parent's.
    fn is_mine(&self) -> bool {
        self.process == process::id()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn add(&self, wheel: Weak<dyn Watched>) -> usize {
        let mut state = self.lock();
        let place = state.wheels.insert(wheel);
        self.has_one_wheel.store(state.wheels.len() == 1, Ordering::Relaxed);
        place
    }

    fn remove(&self, place: usize) {
        if !self.is_mine() {
            return;
        }
        let mut state = self.lock();
        let _wheel = state.wheels.try_remove(place);
        self.has_one_wheel.store(state.wheels.len() == 1, Ordering::Relaxed);
        if state.wheels.is_empty() && state.has_thread {
            self.wake_thread_by(&state, Nanos::ZERO);
        }
    }

    /// Plans a look, and asks for the thread if there is none.
    #[cold]
    fn plan(&'static self, at: Nanos) -> Option<io::Error> {
        if !self.is_mine() {
            return None;
        }
        let mut state = self.lock();
        // A wheel that has ended may still be turned, but is not watched.
        if state.wheels.is_empty() {
            return None;
        }
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
        self.wake_thread_by(&state, at);
        None
    }

    /// Has the thread look at `at`, unless it looks before.
    fn wake_thread_by(&self, _locked: &State, at: Nanos) {
        if at.0 < self.next_look.load(Ordering::Relaxed) {
            self.next_look.store(at.0, Ordering::Relaxed);
            match &self.timer {
                Some(timer) => timer.set(Duration::from_nanos(at.0.saturating_sub(now().0))),
                None => self.changed.notify_one(),
            }
        }
    }

    /// What the thread does until no wheel is left.
    pub(crate) fn watch(&'static self) {
        let mut state = self.lock();
        while !state.wheels.is_empty() {
            let (now, at) = (now(), Nanos(self.next_look.load(Ordering::Relaxed)));
            state = if at <= now {
                self.look(state, now);
                self.lock()
            } else if let Some(timer) = &self.timer {
                drop(state);
                timer.sleep();
                self.lock()
            } else if at < Nanos::MAX {
                let wait = Duration::from_nanos(at.0 - now.0);
                self.changed.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0
            } else {
                self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
            };
        }
        state.has_thread = false;
        self.next_look.store(u64::MAX, Ordering::Relaxed);
    }

    /// Looks in place of the thread, which so need not wake for turns that were made in time.
    #[cold]
    fn look_early(&self) {
        if self.is_mine() {
            let state = self.lock();
            if state.has_thread && state.wheels.len() == 1 {
                self.look(state, now());
            }
        }
    }

    /// Looks at all wheels, and plans the next look. Wakes a worker of each wheel whose turn is late, after it has released the
    /// lock.
    fn look(&self, state: MutexGuard<'_, State>, now: Nanos) {
        self.next_look.store(u64::MAX, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let mut next = Nanos::MAX;
        let mut late = Vec::new();
        for wheel in state.wheels.iter().filter_map(|(_, wheel)| wheel.upgrade()) {
            match wheel.turn_due() {
                Some(due) if due.after(LATE) <= now => {
                    next = next.min(now.after(PAUSE));
                    late.push(wheel);
                }
                Some(due) => next = next.min(due.after(LOOK_AFTER)),
                // Another look is planned at the end of its turn, or as it gets something to do.
                None => {}
            }
        }
        self.wake_thread_by(&state, next);
        drop(state);
        late.iter().for_each(|wheel| wheel.wake_a_worker());
    }
}

fn spawn(watchdog: &'static Watchdog) -> io::Result<()> {
    let thread = thread::Builder::new().name("timingwheel-watchdog".into()).stack_size(STACK_SIZE);
    let watch = || {
        leave_own_processor();
        watchdog.watch();
    };
    thread.spawn(watch).map(drop)
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

        fn wake_a_worker(&self) {
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

    fn next_look(watchdog: &Watchdog) -> Nanos {
        Nanos(watchdog.next_look.load(Ordering::Relaxed))
    }

    #[test]
    fn a_turn_moves_the_next_look_if_that_comes_too_late_for_it_and_one_in_reach_of_it_does_not() {
        let watchdog = watchdog(spawn);
        let (wheel, watch, is_woken) = wheel(watchdog);
        let first = now().after(Duration::from_secs(3600));
        expect_at(&wheel, &watch, first);
        let planned = next_look(watchdog);
        assert_eq!(planned, first.after(LOOK_AFTER));
        for turn in [first, first.after(LOOK_AFTER - LATE)] {
            expect_at(&wheel, &watch, turn);
            assert_eq!(next_look(watchdog), planned, "one look for turns that lie near each other");
        }
        expect_at(&wheel, &watch, now().before(LATE));
        assert!(is_woken.recv_timeout(SAFE).is_ok());
    }

    #[test]
    fn the_turns_of_the_only_wheel_move_the_next_look_on_and_those_of_several_leave_it_to_the_thread() {
        let watchdog = watchdog(|_| Ok(()));
        let (only, watch, _is_woken) = wheel(watchdog);
        let first = now().after(SAFE);
        let (second, far) = (first.after(NEAR), first.after(NEAR * 3));
        for (turn, at) in [(first, first), (second, second), (far, second)] {
            expect_at(&only, &watch, turn);
            assert_eq!(next_look(watchdog), at.after(LOOK_AFTER));
        }
        let (other, other_watch, _is_woken) = wheel(watchdog);
        expect_at(&other, &other_watch, first);
        expect_at(&other, &other_watch, second);
        assert_eq!(next_look(watchdog), first.after(LOOK_AFTER));
    }

    #[test]
    fn a_look_wakes_a_worker_of_a_late_wheel_and_comes_again_soon_and_one_with_nothing_to_expect_does_not() {
        let watchdog = watchdog(|_| Ok(()));
        let (wheel, watch, is_woken) = wheel(watchdog);
        let now = now();
        expect_at(&wheel, &watch, now.before(LATE));
        let look = |now| watchdog.look(watchdog.lock(), now);
        look(now);
        assert_eq!((next_look(watchdog), is_woken.try_recv()), (now.after(PAUSE), Ok(())));
        look(now.after(PAUSE));
        assert_eq!(next_look(watchdog), Nanos::MAX);
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
        // One that never needed a thread.
        wheel(watchdog).1.end();
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
