//! A note of who has the file. The lock is redb's; this only tells a person whose it is.

use std::path::{Path, PathBuf};
use std::{env, fs, io, process};

use jiff::Timestamp;

pub(super) struct OwnerNote(PathBuf);

impl OwnerNote {
    fn path(file: &Path) -> PathBuf {
        let mut name = file.as_os_str().to_owned();
        name.push(".owner");
        name.into()
    }

    /// For who has the lock.
    pub(super) fn write(file: &Path) -> io::Result<Self> {
        let path = Self::path(file);
        let program = env::current_exe().ok();
        let program = program.as_deref().and_then(Path::file_name).unwrap_or_default().display().to_string();
        let since = Timestamp::now().strftime("%F %T UTC");
        fs::write(&path, format!("process {} ({program}) since {since}\n", process::id()))?;
        Ok(Self(path))
    }

    /// For who has not. What a process left behind that was killed is overwritten by the next owner.
    pub(super) fn read(file: &Path) -> Option<String> {
        let note = fs::read_to_string(Self::path(file)).ok()?;
        Some(note.trim_end().to_owned()).filter(|note| !note.is_empty())
    }
}

impl Drop for OwnerNote {
    fn drop(&mut self) {
        // If it stays, nobody is misled: it is read only where the file is locked.
        let _ = fs::remove_file(&self.0);
    }
}
