//! How many connections the file limit of the process allows.

use indicatif::HumanCount;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::settings::Settings;

/// Both ends of a connection are in this process.
const FILES_PER_CONNECTION: u64 = 2;
/// For the runtime, the listener and the standard streams.
const RESERVE: u64 = 64;

/// Raises the file limit as far as it goes, and takes back the connections that it does not allow.
pub(crate) fn fit(mut settings: Settings) -> Result<Settings, String> {
    let before = getrlimit(Resource::Nofile).current;
    let Some(files) = raise() else {
        println!("no file limit");
        return Ok(settings);
    };
    match before {
        Some(before) if before < files => println!("file limit {files}, raised from {before}"),
        _ => println!("file limit {files}"),
    }

    let allowed = files.saturating_sub(RESERVE) / FILES_PER_CONNECTION;
    if allowed == 0 {
        return Err(format!(
            "a file limit of {files} allows no connection: each takes {FILES_PER_CONNECTION} files beside a reserve \
             of {RESERVE}"
        ));
    }
    if allowed < settings.connections {
        println!(
            "that allows {} connections, not the {} asked for:\n\
             each takes {FILES_PER_CONNECTION} files, beside a reserve of {RESERVE}",
            HumanCount(allowed),
            HumanCount(settings.connections)
        );
        settings.connections = allowed;
    }
    Ok(settings)
}

/// Raises the soft limit to the hard one. Returns what is in force then; `None` is no limit.
fn raise() -> Option<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        // Where the system refuses, because it has another limit of its own, the old one is still in force.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
    getrlimit(Resource::Nofile).current
}
