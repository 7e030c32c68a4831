//! Rules as the schedules of jobs on a wheel, by the wall clock.

// | file | what it has |
// |---|---|
// | `clock` | the wall clock, and the looks that notice that somebody set it |
// | `schedule` | a rule as a schedule of one job |
// | `next_run` | which run comes next |

mod clock;
mod next_run;
mod schedule;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use clock::WallClock;
pub use schedule::{Scheduled, WallSchedule};

/// A panic leaves the value whole: each change of it is one assignment.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
