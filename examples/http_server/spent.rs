//! What the kernel counts for this process.

use std::error::Error;
use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use rustix::time::{ClockId, clock_gettime};

/// What all threads took together since the process began, those that have ended too.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spent {
    pub(crate) cpu: Duration,
    /// The part of it outside the kernel, as exactly as the kernel tells that.
    pub(crate) user: Duration,
    /// How often a thread left its core, on its own or not.
    pub(crate) context_switches: u64,
}

impl Spent {
    /// # Errors
    /// If the kernel does not tell.
    pub(crate) fn so_far() -> Result<Self, Box<dyn Error + Send + Sync>> {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        let usage = getrusage(UsageWho::RUSAGE_SELF)?;
        let user = usage.user_time();
        let switches = usage.voluntary_context_switches() + usage.involuntary_context_switches();
        Ok(Self {
            cpu: Duration::new(time.tv_sec.try_into()?, time.tv_nsec.try_into()?),
            user: Duration::from_secs(user.tv_sec().try_into()?)
                + Duration::from_micros(user.tv_usec().try_into()?),
            context_switches: switches.try_into()?,
        })
    }
}
