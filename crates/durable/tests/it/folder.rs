//! Folders of tests.

use std::path::Path;

use tempfile::TempDir;

/// A folder that is gone after the test. It is in memory, where the system has files there and room for them: a process that is
/// killed leaves there what it has written, and nothing waits for a disk.
pub(crate) fn folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    if has_room(memory) { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.expect("a folder")
}

/// A container's files in memory have 64 MB, and then the mount says its size.
fn has_room(folder: &Path) -> bool {
    const ROOM_KB: u64 = 1 << 20;
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
    let mount = mounts
        .lines()
        .map(|line| line.split(' '))
        .find(|line| line.clone().nth(1).map(Path::new) == Some(folder));
    let size = |options: &str| {
        options.split(',').find_map(|option| option.strip_prefix("size=")?.strip_suffix('k')?.parse().ok())
    };
    mount.is_some_and(|mut line| line.nth(3).and_then(size).is_none_or(|size: u64| size >= ROOM_KB))
}
