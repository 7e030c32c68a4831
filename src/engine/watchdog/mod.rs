//! The watchdog: a thread for the process that notices when nobody has turned a wheel.
//!
//! A worker that comes from the runtime's park with something to do, and blocks, keeps the others from looking at the
//! runtime's timers: those that are parked wait for it, not for the poller. The watchdog looks a few milliseconds
//! after a turn that was to be made. If it was not, it wakes the driver's task, which comes to another worker; that one
//! parks next, and turns the wheel there.
//!
//! | who | does |
//! |---|---|
//! | whoever arms a wheel | moves the next look, unless it lies [`SOON`] to [`LATE`] after the turn that was armed |
//! | the thread, at the next look | wakes the tasks of wheels that were to be turned [`SOON`] ago, or before |
//!
//! So as long as wheels are turned in time the look moves on before it comes, and the thread sleeps. It ends with the
//! last wheel that is watched.

#[cfg(all(feature = "timerfd", any(target_os = "linux", target_os = "android")))]
mod look_timer;
#[cfg(not(all(feature = "timerfd", any(target_os = "linux", target_os = "android"))))]
#[path = "look_timer_by_condvar.rs"]
mod look_timer;
#[cfg(all(test, not(loom)))]
mod tests;

use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};
use std::{fmt, io, thread};

use crate::wheel::tick::Nanos;
use look_timer::LookTimer;

/// A turn that is late by so much is looked after.
const SOON: Duration = Duration::from_millis(2);
/// It is looked after at the latest when it is late by so much.
const LATE: Duration = Duration::from_millis(5);
/// So long the thread sleeps, at least, after it has woken somebody.
const PAUSE: Duration = Duration::from_millis(10);

/// Enough to wake a task.
const STACK_SIZE: usize = 256 * 1024;

/// A wheel, to the watchdog.
pub(crate) trait Watched: Send + Sync + fmt::Debug {
    /// When it is to be turned next, unless it is being turned, or has nothing to do.
    fn next_turn(&self) -> Option<Nanos>;

    /// Nobody has turned it. `exactly`: because nobody else does.
    fn wake(&self, exactly: bool);
}

/// What a wheel holds to be watched.
#[derive(Debug)]
pub(crate) struct Watch {
    id: u64,
    offset: Offset,
    kind: AtomicU64,
}

/// The values of `Watch::kind`.
const NOT_WATCHED: u64 = 0;
const WATCHED: u64 = 1;
const EXACTLY: u64 = 2;

impl Watch {
    /// For a wheel whose time is what `now` tells. It is not watched yet.
    pub(crate) fn new(now: impl Fn() -> Nanos) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            offset: WATCHDOG.offset_of(now),
            kind: AtomicU64::new(NOT_WATCHED),
        }
    }

    /// Has the wheel watched from now on. `exactly`: nobody else wakes it.
    ///
    /// # Errors
    /// If the operating system gives no thread, or no timer for it.
    pub(crate) fn begin<W: Watched + 'static>(&self, wheel: &Arc<W>, exactly: bool) -> io::Result<()> {
        let wheel: Weak<W> = Arc::downgrade(wheel);
        WATCHDOG.add(Entry { id: self.id, wheel, offset: self.offset, exactly })?;
        self.kind.store(if exactly { EXACTLY } else { WATCHED }, Ordering::Relaxed);
        Ok(())
    }

    /// The wheel is to be turned at that time, as it tells from now on. Called after a sequentially consistent fence.
    #[inline]
    pub(crate) fn expect(&self, at: Nanos) {
        match self.kind.load(Ordering::Relaxed) {
            NOT_WATCHED => {}
            EXACTLY => WATCHDOG.move_look(),
            _ if WATCHDOG.looks_after(self.offset.by_watchdog(at)) => {}
            _ => WATCHDOG.move_look(),
        }
    }

    /// The wheel has ended.
    pub(crate) fn end(&self) {
        if self.kind.swap(NOT_WATCHED, Ordering::Relaxed) != NOT_WATCHED {
            WATCHDOG.forget(self.id);
        }
    }
}

/// By how many nanoseconds a wheel's time is behind the watchdog's, which is more than 292 years for neither.
#[derive(Clone, Copy, Debug)]
struct Offset(i64);

impl Offset {
    fn between(by_watchdog: Nanos, by_wheel: Nanos) -> Self {
        Self(by_watchdog.0.wrapping_sub(by_wheel.0).cast_signed())
    }

    /// The watchdog's time for a wheel's. What lies before its origin is at the origin.
    fn by_watchdog(self, by_wheel: Nanos) -> Nanos {
        // The end of time is that of all clocks.
        if by_wheel == Nanos::MAX { by_wheel } else { Nanos(by_wheel.0.saturating_add_signed(self.0)) }
    }
}

static WATCHDOG: LazyLock<Watchdog> = LazyLock::new(Watchdog::new);

struct Watchdog {
    origin: Instant,
    /// Written under the lock.
    next_look: AtomicU64,
    state: Mutex<State>,
}

struct State {
    wheels: Vec<Entry>,
    /// No look before this, but at wheels that nobody else wakes.
    not_before: Nanos,
    /// There while the thread is.
    timer: Option<Arc<LookTimer>>,
}

struct Entry {
    id: u64,
    wheel: Weak<dyn Watched>,
    offset: Offset,
    exactly: bool,
}

impl Entry {
    /// When the wheel is to be turned.
    fn next_turn(&self) -> Option<Nanos> {
        Some(self.offset.by_watchdog(self.wheel.upgrade()?.next_turn()?))
    }

    /// When it is to be looked after.
    fn next_look(&self, not_before: Nanos) -> Nanos {
        match self.next_turn() {
            None => Nanos::MAX,
            Some(at) if self.exactly => at,
            Some(at) => at.after(LATE).max(not_before),
        }
    }

    fn is_late(&self, now: Nanos) -> bool {
        let soon = if self.exactly { Duration::ZERO } else { SOON };
        self.next_turn().is_some_and(|at| at.after(soon) <= now)
    }
}

impl Watchdog {
    fn new() -> Self {
        Self {
            origin: Instant::now(),
            next_look: AtomicU64::new(u64::MAX),
            state: Mutex::new(State { wheels: Vec::new(), not_before: Nanos::ZERO, timer: None }),
        }
    }

    fn now(&self) -> Nanos {
        Nanos::from_duration(self.origin.elapsed())
    }

    /// The offset of a wheel's clock. One look at each comes after the other, and in between this thread may lose its
    /// core: then they look again. What is left makes a look late, and not early.
    fn offset_of(&self, wheels_now: impl Fn() -> Nanos) -> Offset {
        const AT_ONCE: Duration = Duration::from_micros(20);
        const ATTEMPTS: usize = 10;
        let mut attempts = (0..ATTEMPTS).map(|_| {
            let (before, by_wheel) = (self.now(), wheels_now());
            let after = self.now();
            (after <= before.after(AT_ONCE), Offset::between(after, by_wheel))
        });
        let mut last = attempts.next().expect("there are some");
        while !last.0
            && let Some(next) = attempts.next()
        {
            last = next;
        }
        last.1
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code of a user's runs under the lock, so what it guards is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&'static self, entry: Entry) -> io::Result<()> {
        let mut state = self.lock();
        if state.timer.is_none() {
            let timer = Arc::new(LookTimer::new()?);
            let watch = {
                let timer = timer.clone();
                move || self.watch(&timer)
            };
            let thread = thread::Builder::new().name("timingwheel-watchdog".into());
            thread.stack_size(STACK_SIZE).spawn(watch)?;
            state.timer = Some(timer);
        }
        state.wheels.push(entry);
        Ok(())
    }

    fn forget(&self, id: u64) {
        let mut state = self.lock();
        state.wheels.retain(|entry| entry.id != id);
        if let (true, Some(timer)) = (state.wheels.is_empty(), &state.timer) {
            // So that the thread ends.
            timer.set(Some(Duration::ZERO));
        }
    }

    /// Whether the next look is a good one for a turn at that time.
    #[inline]
    fn looks_after(&self, turn: Nanos) -> bool {
        let next_look = Nanos(self.next_look.load(Ordering::Relaxed));
        turn.after(SOON) <= next_look && next_look <= turn.after(LATE)
    }

    /// Moves the next look to where the wheels need it.
    #[cold]
    fn move_look(&self) {
        self.set_look(&self.lock());
    }

    fn set_look(&self, state: &State) {
        let Some(timer) = &state.timer else { return };
        // The thread has been told to end.
        if state.wheels.is_empty() {
            return;
        }
        loop {
            let looks = state.wheels.iter().map(|entry| entry.next_look(state.not_before));
            let next_look = looks.min().unwrap_or(Nanos::MAX);
            if self.next_look.swap(next_look.0, Ordering::Relaxed) == next_look.0 {
                break;
            }
            let delay = Duration::from_nanos(next_look.0.saturating_sub(self.now().0));
            timer.set((next_look < Nanos::MAX).then_some(delay));
            // Whoever arms a wheel meanwhile tells its time first and looks at this second.
            fence(Ordering::SeqCst);
        }
    }

    /// The thread. It runs no code of a user's.
    fn watch(&self, timer: &LookTimer) {
        loop {
            timer.wait();
            let mut state = self.lock();
            if state.wheels.is_empty() {
                self.next_look.store(u64::MAX, Ordering::Relaxed);
                state.timer = None;
                return;
            }
            let now = self.now();
            let late = state.wheels.iter().filter(|entry| entry.is_late(now));
            let late: Vec<_> = late.map(|entry| (entry.wheel.clone(), entry.exactly)).collect();
            if late.iter().any(|(_, exactly)| !exactly) {
                state.not_before = now.after(PAUSE);
            }
            // What was set has come.
            self.next_look.store(0, Ordering::Relaxed);
            self.set_look(&state);
            drop(state);
            for (wheel, exactly) in late {
                if let Some(wheel) = wheel.upgrade() {
                    wheel.wake(exactly);
                }
            }
        }
    }
}
