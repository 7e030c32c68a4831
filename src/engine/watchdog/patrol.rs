//! The watchdog's thread: when it looks, and how it decides that nobody has turned a wheel in time.

#[cfg(all(test, not(loom)))]
#[path = "patrol_tests.rs"]
mod tests;

use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};
use std::{io, thread};

use super::patrol_timer::PatrolTimer;
use super::{Role, Watched};
use crate::wheel::Nanos;

/// A turn that is late by this much makes the watchdog wake the wheel, if it patrols then.
pub(super) const SOON: Duration = Duration::from_millis(2);
/// The watchdog patrols at the latest when a turn is late by this much.
pub(super) const LATE: Duration = Duration::from_millis(5);
/// After it has woken a wheel, the thread sleeps at least this long.
const PAUSE: Duration = Duration::from_millis(10);

/// The thread's stack: enough to wake a task.
const STACK_SIZE: usize = 256 * 1024;

/// How many nanoseconds the watchdog's time is ahead of a wheel's. The difference is never more than 292 years.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offset(i64);

impl Offset {
    fn between(by_watchdog: Nanos, by_wheel: Nanos) -> Self {
        Self(by_watchdog.0.wrapping_sub(by_wheel.0).cast_signed())
    }

    /// The watchdog's time for a wheel's time. A time before the watchdog's origin becomes the origin.
    pub(super) fn by_watchdog(self, by_wheel: Nanos) -> Nanos {
        // `MAX` stands for never, on every clock.
        if by_wheel == Nanos::MAX { by_wheel } else { Nanos(by_wheel.0.saturating_add_signed(self.0)) }
    }
}

pub(super) static WATCHDOG: LazyLock<Watchdog> = LazyLock::new(Watchdog::new);

pub(super) struct Watchdog {
    origin: Instant,
    /// Written under the lock.
    next_patrol: AtomicU64,
    state: Mutex<State>,
}

struct State {
    wheels: Vec<Entry>,
    /// No patrol is before this time, except for wheels of which the watchdog is the only waker.
    not_before: Nanos,
    /// `Some` while there is a thread.
    timer: Option<Arc<PatrolTimer>>,
}

pub(super) struct Entry {
    pub(super) id: u64,
    pub(super) wheel: Weak<dyn Watched>,
    pub(super) offset: Offset,
    pub(super) role: Role,
}

impl Entry {
    /// When the wheel's next turn is due, by the watchdog's time.
    fn next_turn(&self) -> Option<Nanos> {
        Some(self.offset.by_watchdog(self.wheel.upgrade()?.next_turn()?))
    }

    /// When this wheel needs the next patrol.
    fn next_patrol(&self, not_before: Nanos) -> Nanos {
        match (self.next_turn(), self.role) {
            (None, _) => Nanos::MAX,
            (Some(at), Role::OnlyWaker) => at,
            (Some(at), Role::Backup) => at.after(LATE).max(not_before),
        }
    }

    /// Whether the watchdog has to wake the wheel now.
    fn is_late(&self, now: Nanos) -> bool {
        let soon = match self.role {
            Role::Backup => SOON,
            Role::OnlyWaker => Duration::ZERO,
        };
        self.next_turn().is_some_and(|at| at.after(soon) <= now)
    }
}

impl Watchdog {
    fn new() -> Self {
        Self {
            origin: Instant::now(),
            next_patrol: AtomicU64::new(u64::MAX),
            state: Mutex::new(State { wheels: Vec::new(), not_before: Nanos::ZERO, timer: None }),
        }
    }

    fn now(&self) -> Nanos {
        Nanos::from_duration(self.origin.elapsed())
    }

    /// The offset of a wheel's clock. The two clocks are read one after the other. If this thread loses its core in
    /// between, they are read again. An error that remains makes the watchdog late, never early.
    pub(super) fn offset_of(&self, wheels_now: impl Fn() -> Nanos) -> Offset {
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
        // No user's code runs under the lock, so a panic cannot have left half-changed data.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&'static self, entry: Entry) -> io::Result<()> {
        let mut state = self.lock();
        if state.timer.is_none() {
            let timer = Arc::new(PatrolTimer::new()?);
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

    pub(super) fn forget(&self, id: u64) {
        let mut state = self.lock();
        state.wheels.retain(|entry| entry.id != id);
        if let (true, Some(timer)) = (state.wheels.is_empty(), &state.timer) {
            // Wakes the thread, which then ends.
            timer.set(Some(Duration::ZERO));
        }
    }

    /// Whether the next patrol comes at a good time for a turn at `turn`.
    #[inline]
    pub(super) fn patrols_in_time_for(&self, turn: Nanos) -> bool {
        let next_patrol = Nanos(self.next_patrol.load(Ordering::Relaxed));
        turn.after(SOON) <= next_patrol && next_patrol <= turn.after(LATE)
    }

    /// Moves the next patrol to the time at which the wheels need it.
    #[cold]
    pub(super) fn move_patrol(&self) {
        self.set_patrol(&self.lock());
    }

    fn set_patrol(&self, state: &State) {
        let Some(timer) = &state.timer else { return };
        // The thread has been told to end.
        if state.wheels.is_empty() {
            return;
        }
        loop {
            let patrols = state.wheels.iter().map(|entry| entry.next_patrol(state.not_before));
            let next_patrol = patrols.min().unwrap_or(Nanos::MAX);
            if self.next_patrol.swap(next_patrol.0, Ordering::Relaxed) == next_patrol.0 {
                break;
            }
            let delay = Duration::from_nanos(next_patrol.0.saturating_sub(self.now().0));
            timer.set((next_patrol < Nanos::MAX).then_some(delay));
            // A thread that sets an alarm meanwhile publishes the turn's time first, and reads `next_patrol` second. This
            // thread publishes `next_patrol` first, and reads the turns' times again second. So one of them sees the
            // other.
            fence(Ordering::SeqCst);
        }
    }

    /// What the thread does. It runs no user's code.
    fn watch(&self, timer: &PatrolTimer) {
        loop {
            timer.wait();
            let mut state = self.lock();
            if state.wheels.is_empty() {
                self.next_patrol.store(u64::MAX, Ordering::Relaxed);
                state.timer = None;
                return;
            }
            let now = self.now();
            let late = state.wheels.iter().filter(|entry| entry.is_late(now));
            let late: Vec<_> = late.map(|entry| (entry.wheel.clone(), entry.role)).collect();
            if late.iter().any(|&(_, role)| role == Role::Backup) {
                state.not_before = now.after(PAUSE);
            }
            // The patrol that was set has come, so the next one has to be set in any case.
            self.next_patrol.store(0, Ordering::Relaxed);
            self.set_patrol(&state);
            drop(state);
            for (wheel, role) in late {
                if let Some(wheel) = wheel.upgrade() {
                    wheel.wake(role);
                }
            }
        }
    }
}
