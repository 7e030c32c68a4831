//! Opens the file, opens it again after an error, and notes which process has it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::{env, fs, io, process};

use jiff::Timestamp;
use redb::{
    Builder, Database, DatabaseError, ReadableDatabase, ReadableTable, StorageBackend, TableError,
    WriteTransaction,
};

use super::error::is_damage;
use super::tables::{Damaged, FORMAT, META, RedbReads, RedbTables, migrate, put_in_order};
use super::{RedbError, RedbOptions, Result};
use crate::clock::Clock;
use crate::error::{self, panic_text};
use crate::id::drawn;

pub(super) struct File {
    pub(super) path: Option<PathBuf>,
    options: RedbOptions,
    /// `None` after an error, until the next call. What has failed stays closed by redb until it is opened again.
    open: RwLock<Option<Open>>,
    /// How many damaged timers were found since this was opened.
    pub(super) damaged: AtomicU64,
    pub(super) clock: Mutex<Option<Arc<dyn Clock>>>,
}

struct Open {
    /// First, so that it is dropped before the lock is let go: a note of the next owner is not deleted.
    _note: Option<OwnerNote>,
    database: Database,
}

impl Open {
    fn new(path: &Path, database: Database) -> Self {
        // If the note cannot be written, as on a full disk, the file is used without one.
        Self { _note: OwnerNote::write(path).ok(), database }
    }
}

impl File {
    /// `creates`: where there is no file, it is made.
    pub(super) fn open(path: &Path, options: RedbOptions, creates: bool) -> Result<Self> {
        let made = if creates && !path.try_exists().unwrap_or(true) { make(path, &options)? } else { None };
        let open = match made {
            Some(database) => Open::new(path, database),
            None => open(path, &options)?,
        };
        Ok(Self::of(Some(path.to_owned()), options, open))
    }

    pub(super) fn with_backend(backend: impl StorageBackend, options: RedbOptions) -> Result<Self> {
        let database = contained(None, || {
            let database = builder(&options).create_with_backend(backend)?;
            check(&database)?;
            Ok(database)
        })?;
        Ok(Self::of(None, options, Open { database, _note: None }))
    }

    fn of(path: Option<PathBuf>, options: RedbOptions, open: Open) -> Self {
        Self {
            path,
            options,
            open: RwLock::new(Some(open)),
            damaged: AtomicU64::new(0),
            clock: Mutex::default(),
        }
    }

    fn now(&self) -> Option<Timestamp> {
        let clock = self.clock.lock().unwrap_or_else(PoisonError::into_inner).clone();
        clock.map(|clock| clock.now())
    }

    /// Works in one transaction, which is durable when this returns. Damaged timers that reads have found are put aside in it.
    pub(super) fn write<T>(
        &self,
        found: Damaged,
        work: impl FnOnce(&mut RedbTables<'_>) -> Result<T>,
    ) -> Result<T> {
        self.with(|database| {
            let transaction = begin(database)?;
            let (done, damaged) = {
                let mut tables = RedbTables::open(&transaction, self.now())?;
                let done = work(&mut tables)?;
                tables.keep_about()?;
                (done, tables.keep_damaged(found)?)
            };
            transaction.commit()?;
            self.damaged.fetch_add(damaged, Ordering::Relaxed);
            Ok(done)
        })
    }

    pub(super) fn read<T>(&self, work: impl FnOnce(&RedbReads) -> Result<T>) -> Result<T> {
        let (read, damaged) = self.with(|database| {
            let reads = RedbReads::open(&database.begin_read()?)?;
            Ok((work(&reads)?, reads.damaged()))
        })?;
        if !damaged.is_empty() {
            self.write(damaged, |_| Ok(()))?;
        }
        Ok(read)
    }

    pub(super) fn compact(&self) -> Result<()> {
        self.reopen()?;
        let compacted = match &mut *self.open.write().unwrap_or_else(PoisonError::into_inner) {
            Some(open) => contained(self.path.as_deref(), || {
                // Its answer, whether it moved anything, is not needed.
                open.database.compact()?;
                Ok(())
            }),
            None => Err(RedbError::Closed),
        };
        self.close_after(compacted)
    }

    fn with<T>(&self, work: impl FnOnce(&Database) -> Result<T>) -> Result<T> {
        let result = loop {
            self.reopen()?;
            // It may have been closed again, after an error of the other thread.
            if let Some(open) = &*self.open.read().unwrap_or_else(PoisonError::into_inner) {
                break contained(self.path.as_deref(), || {
                    let done = work(&open.database);
                    if let Err(RedbError::Reordered { .. }) = done {
                        let transaction = begin(&open.database)?;
                        let damaged = put_in_order(&transaction)?;
                        transaction.commit()?;
                        self.damaged.fetch_add(damaged, Ordering::Relaxed);
                    }
                    done
                });
            }
        };
        self.close_after(result)
    }

    /// After an error of a file all that follows would fail, also where there is room on the disk again.
    fn close_after<T>(&self, result: Result<T>) -> Result<T> {
        if let (Err(RedbError::Storage { .. } | RedbError::Damaged { .. }), Some(_)) = (&result, &self.path) {
            let failed = self.open.write().unwrap_or_else(PoisonError::into_inner).take();
            // It may panic as it is closed.
            error::contained(|| drop(failed));
        }
        result
    }

    /// After an error.
    fn reopen(&self) -> Result<()> {
        if self.open.read().unwrap_or_else(PoisonError::into_inner).is_some() {
            return Ok(());
        }
        let mut current = self.open.write().unwrap_or_else(PoisonError::into_inner);
        if let (None, Some(path)) = (&*current, &self.path) {
            *current = Some(open(path, &self.options)?);
        }
        Ok(())
    }
}

/// redb panics on some damaged pages. The panic hook has reported it.
fn contained<T>(path: Option<&Path>, work: impl FnOnce() -> Result<T>) -> Result<T> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(done) => done.map_err(|error| error.of(path)),
        Err(panic) => {
            let what = format!("a page has what none can have: {}", panic_text(panic));
            Err(RedbError::Damaged { path: path.map(PathBuf::from), what })
        }
    }
}

fn builder(options: &RedbOptions) -> Builder {
    let mut builder = Database::builder();
    builder.set_cache_size(options.cache);
    builder
}

fn begin(database: &Database) -> Result<WriteTransaction> {
    let mut transaction = database.begin_write()?;
    transaction.set_quick_repair(true);
    Ok(transaction)
}

fn cannot_open(path: &Path, error: DatabaseError) -> RedbError {
    match redb::Error::from(error) {
        redb::Error::DatabaseAlreadyOpen => {
            RedbError::InUse { path: path.to_owned(), owner: OwnerNote::read(path) }
        }
        error if is_damage(&error) => error.into(),
        error => RedbError::Open { path: path.to_owned(), error: Arc::new(error) },
    }
}

/// Makes the file with its tables under another name first. So a process that is killed meanwhile leaves no file without tables.
/// Returns `None` if another process has made the file meanwhile.
///
/// Processes with one number, as in two containers, may do this at once. So each takes a name of its own, and keeps its file locked
/// until it stands under its last name.
fn make(path: &Path, options: &RedbOptions) -> Result<Option<Database>> {
    remove_unfinished(path, options);
    let new = beside(path, &format!(".{:016x}{UNFINISHED}", drawn()));
    let made = make_as(&new, path, options, |from, to| fs::hard_link(from, to), sync_folder);
    // It has a second name by now, or is of no use.
    let _ = fs::remove_file(&new);
    made
}

/// `link` and `sync` are the file system's.
fn make_as(
    new: &Path,
    path: &Path,
    options: &RedbOptions,
    link: impl FnOnce(&Path, &Path) -> io::Result<()>,
    sync: impl FnOnce(&Path) -> io::Result<()>,
) -> Result<Option<Database>> {
    let io =
        |error: io::Error| RedbError::Open { path: path.to_owned(), error: Arc::new(redb::Error::Io(error)) };
    let database = contained(Some(path), || {
        let database = builder(options).create(new).map_err(|error| cannot_open(path, error))?;
        check(&database)?;
        Ok(database)
    })?;
    // Unlike `rename`, this leaves a file that another process has made meanwhile as it is.
    match link(new, path) {
        Ok(()) => {}
        Err(_) if path.exists() => return Ok(None),
        // Another process has taken it for an unfinished one, and makes the file.
        Err(_) if !new.exists() => return Err(RedbError::InUse { path: path.to_owned(), owner: None }),
        // The file system has no links.
        Err(_) => fs::rename(new, path).map_err(io)?,
    }
    sync(path).map_err(io)?;
    Ok(Some(database))
}

/// The end of the name of a file that is being made.
const UNFINISHED: &str = ".new";

/// Removes what processes have left that were killed in [`make`]: no living process has locked it.
fn remove_unfinished(path: &Path, options: &RedbOptions) {
    let Some(name) = path.file_name() else { return };
    let start = format!("{}.", name.to_string_lossy());
    for entry in fs::read_dir(folder(path)).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with(&start) && name.ends_with(UNFINISHED) {
            let unfinished = entry.path();
            let open = || builder(options).open(&unfinished).map_err(|error| cannot_open(path, error));
            let opened = contained(None, open);
            if !matches!(opened, Err(RedbError::InUse { .. })) {
                let _ = fs::remove_file(&unfinished);
            }
        }
    }
}

fn folder(path: &Path) -> &Path {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// Without this, a power cut may take away the name of a file that was synced. Only Unix can sync a folder.
fn sync_folder(path: &Path) -> io::Result<()> {
    if cfg!(unix) { fs::File::open(folder(path))?.sync_all() } else { Ok(()) }
}

fn open(path: &Path, options: &RedbOptions) -> Result<Open> {
    if fs::metadata(path).is_ok_and(|file| file.len() == 0) {
        // redb would make a new store of it.
        let what = "it is empty: delete it to begin with no timers".to_owned();
        return Err(RedbError::Damaged { path: Some(path.to_owned()), what });
    }
    contained(Some(path), || {
        refuse_newer(path, options)?;
        let database = builder(options).open(path).map_err(|error| cannot_open(path, error))?;
        check(&database)?;
        Ok(Open::new(path, database))
    })
}

/// A file of a newer format is left as it is. To open it to be written would change its first bytes.
fn refuse_newer(path: &Path, options: &RedbOptions) -> Result<()> {
    let database = match builder(options).open_read_only(path) {
        Ok(database) => database,
        // It has to be repaired first, which needs to write.
        Err(DatabaseError::RepairAborted) => return Ok(()),
        Err(error) => return Err(cannot_open(path, error)),
    };
    match database.begin_read()?.open_table(META) {
        Ok(meta) => is_known(meta.get("format")?.map(|found| found.value())),
        // It is no file of timers yet.
        Err(TableError::TableDoesNotExist(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn is_known(found: Option<u64>) -> Result<()> {
    match found {
        Some(found) if found > FORMAT => Err(RedbError::Newer { path: None, found, known: FORMAT }),
        _ => Ok(()),
    }
}

/// A new file gets its tables, and an old one is looked at.
fn check(database: &Database) -> Result<()> {
    let transaction = begin(database)?;
    let is_old = {
        let mut meta = transaction.open_table(META)?;
        let found = meta.get("format")?.map(|found| found.value());
        is_known(found)?;
        // A program of an older format could not read what this one writes.
        if found != Some(FORMAT) {
            meta.insert("format", FORMAT)?;
        }
        found != Some(FORMAT)
    };
    if is_old {
        migrate(&transaction)?;
        transaction.commit()?;
    } else {
        transaction.abort()?;
    }
    Ok(())
}

/// A note of the process that has the file, for people. The lock itself is redb's.
struct OwnerNote(PathBuf);

const OWNER: &str = ".owner";

fn beside(file: &Path, ending: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

impl OwnerNote {
    /// Called by the owner of the lock.
    fn write(file: &Path) -> io::Result<Self> {
        let path = beside(file, OWNER);
        let program = env::current_exe().ok();
        let program = program.as_deref().and_then(Path::file_name).unwrap_or_default().display().to_string();
        let since = Timestamp::now().strftime("%F %T UTC");
        fs::write(&path, format!("process {} ({program}) since {since}\n", process::id()))?;
        Ok(Self(path))
    }

    /// Called by other processes. If a process was killed, the next owner overwrites its note.
    fn read(file: &Path) -> Option<String> {
        let note = fs::read_to_string(beside(file, OWNER)).ok()?;
        Some(note.trim_end().to_owned()).filter(|note| !note.is_empty())
    }
}

impl Drop for OwnerNote {
    fn drop(&mut self) {
        // If it stays, it misleads nobody: it is read only while the file is locked.
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn the_folder_is_synced_after_the_file_has_its_name_also_where_there_are_no_links() {
        for has_links in [true, false] {
            let folder = tempfile::tempdir().expect("a folder");
            let [new, path] = ["unfinished", "timers.redb"].map(|name| folder.path().join(name));
            let link = |from: &Path, to: &Path| {
                if has_links { fs::hard_link(from, to) } else { Err(io::ErrorKind::Unsupported.into()) }
            };
            let synced = Cell::new(0);
            let sync = |path: &Path| {
                assert!(path.exists(), "its name comes first");
                synced.set(synced.get() + 1);
                sync_folder(path)
            };
            let made = make_as(&new, &path, &RedbOptions::default(), link, sync).expect("a file");
            assert!(made.is_some() && synced.get() == 1, "links: {has_links}");
        }
    }

    #[test]
    fn a_file_whose_name_may_be_lost_is_not_made() {
        let folder = tempfile::tempdir().expect("a folder");
        let [new, path] = ["unfinished", "timers.redb"].map(|name| folder.path().join(name));
        let sync = |_: &Path| Err(io::ErrorKind::Other.into());
        let made = make_as(&new, &path, &RedbOptions::default(), |from, to| fs::hard_link(from, to), sync);
        assert!(matches!(made, Err(RedbError::Open { .. })));
    }

    #[test]
    fn a_file_that_is_gone_when_it_is_opened_again_is_not_made_anew() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("timers.redb");
        let file = File::open(&path, RedbOptions::default(), true).expect("a file");
        // As after an error.
        let close = || *file.open.write().expect("nobody panics") = None;
        close();
        file.read(|_| Ok(())).expect("it is there");
        close();
        fs::remove_file(&path).expect("a file");
        let error = file.read(|_| Ok(())).expect_err("it is gone");
        assert!(matches!(error, RedbError::Open { .. }) && !path.exists(), "{error}");
    }
}
