//! Disks that are full, and files that cannot be written.

use std::env;
use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use redb::StorageBackend;
use redb::backends::InMemoryBackend;
use timingwheel_durable::store::{Kinds, NewTimer, Page, Store, Which};
use timingwheel_durable::{RedbError, RedbOptions, RedbStore, TimerId};

use crate::folder::folder;

const FULL: &str = "DURABLE_FULL";

fn timer(unique: u64) -> NewTimer {
    NewTimer::new(TimerId::new(Timestamp::UNIX_EPOCH, unique), "kind", vec![b' '; 20_000])
}

async fn ids(store: &RedbStore) -> Vec<TimerId> {
    let page = Page { limit: usize::MAX, ..Page::default() };
    store.list(page).await.expect("a list").into_iter().map(|timer| timer.timer.id()).collect()
}

/// Is run by the test below, in a process whose files may not grow beyond a size.
#[test]
fn a_process_whose_disk_is_full() {
    let Some(path) = env::var_os(FULL) else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(fill(Path::new(&path)));
}

async fn fill(path: &Path) {
    let store = RedbStore::create(path).expect("a store");
    let (mut answered, mut refused) = (Vec::new(), 0);
    for unique in 0..2_000 {
        match store.save(vec![timer(unique)]).await {
            Ok(_) => answered.push(timer(unique).id),
            Err(error) => {
                assert!(RedbStore::is_transient(&error), "{error}");
                refused += 1;
                if refused == 3 {
                    break;
                }
            }
        }
    }
    assert_eq!(refused, 3, "the disk is full");
    assert_eq!(ids(&store).await, answered, "all that was answered, and nothing else");
    // There is room again: within the file, as what is deleted leaves its pages behind.
    let which: Vec<Which> = answered.drain(..answered.len() - 1).map(Which::Id).collect();
    let mut is_removed = false;
    for _ in 0..20 {
        let all = which.iter().map(|which| store.cancel(which.clone()));
        is_removed |= futures::future::join_all(all).await.iter().all(Result::is_ok);
    }
    assert!(is_removed, "a full disk takes removals");
    let mut is_saved = false;
    for unique in 5_000..5_020 {
        is_saved |= store.save(vec![timer(unique)]).await.is_ok();
    }
    assert!(is_saved, "and then saves");
    let left = ids(&store).await;
    assert!(left.contains(&answered[0]) && left.len() > 1);
}

#[cfg(unix)]
#[test]
fn a_full_disk_refuses_saves_loses_nothing_and_goes_on_when_there_is_room() {
    let folder = folder();
    let path = folder.path().join("timers.redb");
    // Of 512 bytes. The signal that would kill the process is left out.
    let script = r#"trap "" XFSZ; ulimit -f 12000; exec "$0" --exact proof::disk::a_process_whose_disk_is_full --nocapture"#;
    let mut child = Command::new("sh");
    child.arg("-c").arg(script).arg(env::current_exe().expect("this program"));
    let output = child.env(FULL, &path).output().expect("a child");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    assert!(path.metadata().expect("a file").len() > 1_000_000, "{text}");
}

/// A file whose file system was made read-only.
#[derive(Debug)]
struct ReadOnly {
    bytes: InMemoryBackend,
    is_on: Arc<AtomicBool>,
}

impl ReadOnly {
    fn check(&self) -> io::Result<()> {
        if self.is_on.load(Ordering::Relaxed) {
            Err(io::ErrorKind::ReadOnlyFilesystem.into())
        } else {
            Ok(())
        }
    }
}

impl StorageBackend for ReadOnly {
    fn len(&self) -> io::Result<u64> {
        self.bytes.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.bytes.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.check()?;
        self.bytes.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.check()?;
        self.bytes.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.check()?;
        self.bytes.write(offset, data)
    }
}

#[tokio::test]
async fn a_file_that_cannot_be_written_any_more_answers_no_save() {
    let is_on = Arc::new(AtomicBool::new(false));
    let backend = ReadOnly { bytes: InMemoryBackend::new(), is_on: is_on.clone() };
    let store = RedbStore::with_backend(backend, RedbOptions::new()).expect("a store");
    store.join(Duration::from_secs(1), Kinds::default()).await.expect("an owner");
    store.save(vec![timer(1)]).await.expect("saved");
    is_on.store(true, Ordering::Relaxed);
    for unique in 2..5 {
        let error = store.save(vec![timer(unique)]).await.expect_err("nothing can be written");
        assert!(matches!(&error, RedbError::Storage { .. }), "{error:?}");
    }
}
