//! Folders of tests.

use std::path::Path;

use tempfile::TempDir;

/// A folder that is gone after the test. It is in memory, where the system has files there: a process that is killed leaves there
/// what it has written, and nothing waits for a disk.
pub(crate) fn folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.expect("a folder")
}
