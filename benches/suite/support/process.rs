//! What the kernel counts for this process.

use std::fs;
use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use rustix::time::{ClockId, clock_gettime};

use super::machine::field;

/// The CPU time of all threads so far.
pub(crate) fn cpu_time() -> Duration {
    time_by(ClockId::ProcessCPUTime)
}

/// The CPU time of the calling thread so far.
pub(crate) fn thread_cpu_time() -> Duration {
    time_by(ClockId::ThreadCPUTime)
}

fn time_by(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).expect("below a second"))
}

/// How often threads of this process have left their core so far, on their own or not. Threads that have ended count.
pub(crate) fn context_switches() -> u64 {
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("the kernel tells a process its own usage");
    let switches = usage.voluntary_context_switches() + usage.involuntary_context_switches();
    u64::try_from(switches).expect("a count")
}

/// How many threads this process has now; nothing where the kernel does not tell it as Linux does.
pub(crate) fn threads() -> Option<usize> {
    field("/proc/self/status", "Threads")?.parse().ok()
}

/// The memory that is in use now, in bytes; nothing where the kernel does not tell it as Linux does.
pub(crate) fn resident_bytes() -> Option<f64> {
    const BYTES_PER_KIB: f64 = 1024.0;
    let kib: f64 = field("/proc/self/status", "VmRSS")?.strip_suffix(" kB")?.parse().ok()?;
    Some(kib * BYTES_PER_KIB)
}

/// How often the threads that live now went to sleep so far, without the calling one; nothing where the kernel does not
/// tell it as Linux does.
pub(crate) fn sleeps_of_other_threads() -> Option<f64> {
    let sleeps = |status: &str| field(status, "voluntary_ctxt_switches")?.parse::<f64>().ok();
    let mut sum = -sleeps("/proc/thread-self/status")?;
    for thread in fs::read_dir("/proc/self/task").ok()? {
        // A thread may end meanwhile.
        sum += sleeps(thread.ok()?.path().join("status").to_str()?).unwrap_or(0.0);
    }
    Some(sum)
}
