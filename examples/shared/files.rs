//! How many files the process may open.

use indicatif::HumanCount;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// For the runtime, the listener, the standard streams, and connections that are about to be closed.
const RESERVE: u64 = 128;
/// Both ends of a connection are in this process.
const FILES_EACH: u64 = 2;

/// Sees to it that the process may open the files that so many connections take; `whose` they are is said if it may not.
#[allow(dead_code, reason = "each example takes what it needs")]
pub(crate) fn raise_limit_for(connections: u64, whose: &str) -> Result<(), String> {
    let needed = connections * FILES_EACH + RESERVE;
    if getrlimit(Resource::Nofile).current.is_some_and(|files| files < needed) {
        raise_limit();
    }
    match getrlimit(Resource::Nofile).current {
        Some(files) if files < needed => Err(format!(
            "the file limit allows at most {} {whose}, got {}: raise it with `ulimit -n {needed}`",
            HumanCount(files.saturating_sub(RESERVE) / FILES_EACH),
            HumanCount(connections),
        )),
        _ => Ok(()),
    }
}

/// Raises the limit as far as it goes.
pub(crate) fn raise_limit() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    // Where the system refuses, the old limit is still in force.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}
