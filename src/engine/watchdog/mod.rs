//! The watchdog: one thread for the process, which notices when nobody turns a wheel.
//!
//! Of a runtime's parked workers only one waits on the poller. The others wait for a signal. If that one worker leaves
//! the park with something to do, and then blocks, nobody polls the runtime's timers any more. So a few milliseconds
//! after a turn was due, the watchdog checks whether it was made: it *patrols*. If the turn was not made, the watchdog
//! wakes the driver's task. Another worker runs this task, parks next, and turns the wheel in its park.
//!
//! | who | does |
//! |---|---|
//! | a thread that sets a wheel's alarm | puts the next patrol off or brings it forward, unless it lies [`SOON`](patrol::SOON) to [`LATE`](patrol::LATE) after that turn |
//! | the watchdog's thread, at the patrol | wakes the driver's task of each wheel whose turn is late by [`SOON`](patrol::SOON) or more |
//!
//! As long as wheels are turned in time, the patrol is put off before it comes, and the thread sleeps. The thread ends
//! with the last wheel that is watched.
//!
//! A wheel in a runtime without an I/O driver and without timers has no other waker: for such a wheel the watchdog
//! patrols exactly when the turn is due.

// | file | what it has |
// |---|---|
// | this one | what the watchdog is to a wheel, and what a wheel is to it |
// | `patrol` | the thread, and its decision that a turn is late |
// | `for_wheel` | what a wheel does: it begins and ends its watch, and tells when it is to be turned |
// | `patrol_timer` | what the thread sleeps on |

mod for_wheel;
mod patrol;
#[cfg(all(feature = "timerfd", any(target_os = "linux", target_os = "android")))]
mod patrol_timer;
#[cfg(not(all(feature = "timerfd", any(target_os = "linux", target_os = "android"))))]
#[path = "patrol_timer_by_condvar.rs"]
mod patrol_timer;

use std::fmt;

use crate::wheel::Nanos;
pub(crate) use for_wheel::Watch;

/// What the watchdog is to a wheel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Timers in the runtime's park have the wheel turned. The watchdog wakes it if a turn is late.
    Backup,
    /// Nothing else has the wheel turned. The watchdog wakes it for each turn, as soon as the turn is due.
    OnlyWaker,
}

/// A wheel, as the watchdog sees it.
pub(crate) trait Watched: Send + Sync + fmt::Debug {
    /// When the next turn is due. `None` while a turn goes on, and if there is nothing to do.
    fn next_turn(&self) -> Option<Nanos>;

    /// Called when a turn is due, or late, and was not made.
    fn wake(&self, role: Role);
}
