//! How many connections the file limit of the process allows.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Both ends of a connection are in this process.
const FILES_PER_CLIENT: u64 = 2;
/// For the runtime, the listener, the standard streams, and connections that are about to be closed.
const RESERVE: u64 = 128;

/// Sees to it that the process may open the files that so many clients take.
pub(crate) fn raise_for(clients: u64) -> Result<(), String> {
    let needed = clients * FILES_PER_CLIENT + RESERVE;
    if getrlimit(Resource::Nofile).current.is_some_and(|files| files < needed) {
        raise();
    }
    match getrlimit(Resource::Nofile).current {
        Some(files) if files < needed => Err(format!(
            "{clients} clients take {needed} files, {FILES_PER_CLIENT} each and {RESERVE} in reserve, and the limit is \
             {files}: ask for fewer, or raise it with `ulimit -n`"
        )),
        _ => Ok(()),
    }
}

/// Raises the limit as far as it goes.
pub(crate) fn raise() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    // Where the system refuses, the old limit is still in force.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}
