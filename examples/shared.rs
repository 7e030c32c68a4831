//! What examples share.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The CPU time of this process, in all threads.
///
/// # Errors
/// If the kernel's answer is no time.
pub fn cpu_time() -> Result<Duration, std::num::TryFromIntError> {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime))
}
