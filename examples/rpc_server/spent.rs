//! CPU time and context switches of this process, as the kernel counts them.

use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use rustix::time::{ClockId, clock_gettime};

/// All threads together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spent {
    pub(crate) cpu: Duration,
    /// How often a thread left its core, on its own or not; nothing where the kernel does not tell.
    pub(crate) switches: Option<u64>,
}

impl Spent {
    /// Since the process began; threads that have ended count too.
    pub(crate) fn so_far() -> Self {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        // Neither part is negative: the clock starts at zero with the process.
        let cpu = Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default());
        let switches = getrusage(UsageWho::RUSAGE_SELF).ok().and_then(|usage| {
            u64::try_from(usage.voluntary_context_switches() + usage.involuntary_context_switches()).ok()
        });
        Self { cpu, switches }
    }

    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            cpu: self.cpu.saturating_sub(before.cpu),
            switches: self.switches.zip(before.switches).map(|(now, before)| now.saturating_sub(before)),
        }
    }
}
