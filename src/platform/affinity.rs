//! The processors on which a thread may run.

use rustix::process::getpid;
use rustix::thread::{sched_getaffinity, sched_setaffinity};

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
