//! What the file limit of this process allows.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Both ends of a connection are in this process.
const FILES_PER_CONNECTION: u64 = 2;
/// For the runtime and the standard streams.
const RESERVE: u64 = 64;

/// How many connections the file limit allows, at most `wanted`, after it was raised as far as it goes.
pub(crate) fn connections_allowed(wanted: usize) -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        // Where the system refuses, the old limit is still in force.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
    let Some(files) = getrlimit(Resource::Nofile).current else { return wanted };
    let connections = files.saturating_sub(RESERVE) / FILES_PER_CONNECTION;
    usize::try_from(connections).map_or(wanted, |allowed| allowed.min(wanted)).max(1)
}
