//! Rules as the schedules of jobs on a wheel, by the wall clock.

mod clock;
mod missed;
mod schedule;
mod state;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use clock::WallClock;
pub use missed::Missed;
pub use schedule::{Scheduled, WallSchedule};

/// What a panic leaves behind is as whole as before: each change of it is one assignment.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
