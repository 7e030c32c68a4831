//! CPU time and context switches of this process, as the kernel counts them.

use std::error::Error;
use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

/// All threads together since the process began, ended ones too.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spent {
    pub(crate) cpu: Duration,
    /// The part of it outside the kernel, which some kernels only estimate.
    pub(crate) user: Duration,
    /// How often a thread left its core, on its own or not.
    pub(crate) context_switches: u64,
}

impl Spent {
    /// # Errors
    /// If the kernel does not tell.
    pub(crate) fn so_far() -> Result<Self, Box<dyn Error + Send + Sync>> {
        let usage = getrusage(UsageWho::RUSAGE_SELF)?;
        let user = duration(usage.user_time())?;
        let switches = usage.voluntary_context_switches() + usage.involuntary_context_switches();
        Ok(Self { cpu: user + duration(usage.system_time())?, user, context_switches: switches.try_into()? })
    }
}

fn duration(time: TimeVal) -> Result<Duration, std::num::TryFromIntError> {
    Ok(Duration::from_secs(time.tv_sec().try_into()?) + Duration::from_micros(time.tv_usec().try_into()?))
}
