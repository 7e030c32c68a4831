//! A wheel's side of the watchdog.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use super::patrol::{Entry, Offset, WATCHDOG};
use super::{Role, Watched};
use crate::wheel::Nanos;

/// What a wheel holds so that the watchdog can watch it.
#[derive(Debug)]
pub(crate) struct Watch {
    id: u64,
    offset: Offset,
    /// The watchdog's role, for threads that set alarms.
    role: AtomicU64,
}

/// The values of `Watch::role`.
const NOT_WATCHED: u64 = 0;
const BACKUP: u64 = 1;
const ONLY_WAKER: u64 = 2;

impl Watch {
    /// For a wheel whose clock is `now`. The wheel is not watched yet.
    pub(crate) fn new(now: impl Fn() -> Nanos) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            offset: WATCHDOG.offset_of(now),
            role: AtomicU64::new(NOT_WATCHED),
        }
    }

    /// Has the wheel watched from now on.
    ///
    /// # Errors
    /// If the operating system gives no thread, or no timer for the thread.
    pub(crate) fn begin<W: Watched + 'static>(&self, wheel: &Arc<W>, role: Role) -> io::Result<()> {
        let wheel: Weak<W> = Arc::downgrade(wheel);
        WATCHDOG.add(Entry { id: self.id, wheel, offset: self.offset, role })?;
        let role = match role {
            Role::Backup => BACKUP,
            Role::OnlyWaker => ONLY_WAKER,
        };
        self.role.store(role, Ordering::Relaxed);
        Ok(())
    }

    /// For a thread that has published `at` as the time of the wheel's next turn: moves the next patrol if it has to be
    /// moved. Call it after a sequentially consistent fence.
    #[inline]
    pub(crate) fn expect(&self, at: Nanos) {
        match self.role.load(Ordering::Relaxed) {
            NOT_WATCHED => {}
            ONLY_WAKER => WATCHDOG.move_patrol(),
            _ if WATCHDOG.patrols_in_time_for(self.offset.by_watchdog(at)) => {}
            _ => WATCHDOG.move_patrol(),
        }
    }

    /// The wheel has ended.
    pub(crate) fn end(&self) {
        let role = self.role.swap(NOT_WATCHED, Ordering::Relaxed);
        if role != NOT_WATCHED {
            WATCHDOG.forget(self.id);
        }
    }
}
