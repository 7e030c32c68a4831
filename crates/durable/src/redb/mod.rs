//! The store in a file, and its group commit: calls that come during a commit go together into the next transaction.

mod error;
mod file;
mod row;
mod runs;
mod tables;

use std::fmt;
use std::iter;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::Duration;

use jiff::Timestamp;
use redb::StorageBackend;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::oneshot;

use crate::clock::Clock;
use crate::id::{TimerId, drawn};
use crate::store::{
    Ask, Begun, Counts, Effects, Ended, Filter, Histories, Kinds, Loaded, Looked, Move, NewTimer, Owner,
    Paused, Picked, Removal, Saved, Settled, Sight, Store, Stored, Taken, Tally, ToBegin, Which, all_calls,
};
use crate::tables::over_maps;
pub use error::RedbError;
use file::File;
use tables::{Damaged, RedbReads, RedbTables};

type Result<T, E = RedbError> = std::result::Result<T, E>;

/// A store in one file, by [redb](https://docs.rs/redb). Clones are the same store.
///
/// A call answers after the file is synced, so it is durable. Calls that come during a commit share the next commit: a
/// thousand tasks that save at the same time take two or three commits. A commit takes two syncs. The second sync lets
/// the file open at once after a crash, however large it is.
///
/// The store has two threads of its own, for writes and for reads. So handlers may wait for it on all blocking threads of tokio.
///
/// # The file
/// One process owns the file at a time, and [`RedbError::InUse`] names that process. The name is kept in a second file
/// beside the first, with `.owner` at the end of its name. The file does not shrink by itself: see
/// [`compact`](Self::compact). The file stores the number of its format. A file whose format is newer than this version
/// knows is refused.
///
/// Copy the file while no process has it. If such a copy is put in the place of a later file, no new timer gets an id that the later
/// file has given to another one.
///
/// Each timer has its own checksum. The file keeps the bytes of a damaged timer, and all others run.
/// [`Stats::damaged`](crate::Stats::damaged) counts them. If a page of the file is damaged, redb may panic. The store
/// catches the panic, and returns [`RedbError::Damaged`]. Rarely, redb panics a second time while it cleans up, and the
/// process aborts: once in 2,000 files with random bytes in them.
#[derive(Clone)]
pub struct RedbStore(Arc<Threads>);

impl RedbStore {
    /// Opens the file, or makes it if there is none. Blocks the thread for some milliseconds.
    ///
    /// A file of 0 bytes is refused as damaged: it may be a copy that was made on a full disk.
    ///
    /// # Errors
    /// [`RedbError::InUse`] if a process has the file open, this process included. [`RedbError::Open`] if the folder is
    /// missing, or if the file may not be written. [`RedbError::Damaged`] if the file is damaged, or was never a file
    /// of timers. [`RedbError::Newer`] if its format is newer; the file stays as it was. [`RedbError::Storage`] for all
    /// other errors.
    pub fn create(path: impl AsRef<Path>) -> Result<Self, RedbError> {
        Self::create_with(path, RedbOptions::new())
    }

    /// Opens a file that must exist. So a wrong path does not make a new store.
    ///
    /// # Errors
    /// As [`create`](Self::create), and [`RedbError::Open`] if there is no file.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, RedbError> {
        Self::open_with(path, RedbOptions::new())
    }

    /// As [`create`](Self::create), with settings.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn create_with(path: impl AsRef<Path>, options: RedbOptions) -> Result<Self, RedbError> {
        Self::of(File::open(path.as_ref(), options, true)?)
    }

    /// As [`open`](Self::open), with settings.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_with(path: impl AsRef<Path>, options: RedbOptions) -> Result<Self, RedbError> {
        Self::of(File::open(path.as_ref(), options, false)?)
    }

    /// Opens storage of your own instead of a file, such as encrypted storage.
    ///
    /// After an error of the storage all calls fail. The store can reopen a file after an error, but not such storage.
    ///
    /// In empty storage this makes a new store in place. If the process is killed before this returns, the next opening may fail
    /// with [`RedbError::Damaged`]. So make a new store aside, and then put its storage in place, as [`create`](Self::create)
    /// does with its file.
    ///
    /// # Errors
    /// As [`open`](Self::open), but for [`RedbError::InUse`].
    pub fn with_backend(backend: impl StorageBackend, options: RedbOptions) -> Result<Self, RedbError> {
        Self::of(File::with_backend(backend, options)?)
    }

    /// The path of the file, or `None` for other storage.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.0.file.path.as_deref()
    }

    /// Gives unused space back to the file system.
    ///
    /// All other calls wait until this has ended: some seconds for each gigabyte. After a crash during `compact`, the
    /// next opening reads the whole file.
    ///
    /// # Cancel safety
    /// If this is dropped before it is ready, it goes on by itself.
    ///
    /// # Errors
    /// [`RedbError`].
    pub async fn compact(&self) -> Result<(), RedbError> {
        self.aside(File::compact).await
    }
}

/// Settings of a [`RedbStore`].
#[derive(Clone, Debug)]
pub struct RedbOptions {
    cache: usize,
}

impl RedbOptions {
    /// The settings of [`RedbStore::create`].
    #[must_use]
    pub const fn new() -> Self {
        Self { cache: 32 << 20 }
    }

    /// How many bytes of the file are kept in memory at the most. Unless it is set, 32 MiB.
    #[must_use]
    pub const fn cache(mut self, bytes: usize) -> Self {
        self.cache = bytes;
        self
    }
}

impl Default for RedbOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl Store for RedbStore {
    type Error = RedbError;

    fn is_transient(error: &RedbError) -> bool {
        error.is_transient()
    }

    all_calls! { over_maps }

    fn set_clock(&self, clock: Arc<dyn Clock>) {
        *self.0.file.clock.lock().unwrap_or_else(PoisonError::into_inner) = Some(clock);
    }

    /// Epochs are used once in a file, and yet two lives may have one: where a copy of the file is put in place of a later one. Ids
    /// name timers outside of the file too, as those whose effects are done. So each opening begins to count anywhere, and a later
    /// timer does not get an id that the lost life has told.
    ///
    /// A count comes again after four billion saves of one life. It is the same id only if that timer is due in the same millisecond.
    fn number(&self, owner: Owner, count: u64, _: Timestamp, _: &str) -> u64 {
        owner.epoch << 32 | (count.wrapping_add(self.0.first) & u64::from(u32::MAX))
    }

    fn damaged(&self) -> u64 {
        self.0.file.damaged.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for RedbStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedbStore").field("path", &self.path().map(PathBuf::from)).finish_non_exhaustive()
    }
}

/// How many calls are one transaction at the most.
const CALLS: usize = 4_096;

/// The file, and the ways to its two threads. They are its own, because handlers may occupy all blocking threads of the runtime
/// while they wait for a save.
///
/// Each call brings the file with it, and no thread keeps it: when the last call is answered and the last store dropped, it is
/// closed.
struct Threads {
    file: Arc<File>,
    /// Where each owner begins to count its timers.
    first: u64,
    writes: Sender<Call>,
    /// Reads go on during a commit.
    others: Sender<Box<dyn FnOnce() + Send>>,
}

type Work = Box<dyn FnOnce(&mut RedbTables<'_>) -> Result<()> + Send>;

/// A call that writes.
struct Call {
    file: Arc<File>,
    work: Work,
    /// The transaction is durable, or it failed with this error, and nothing of it was done.
    reply: oneshot::Sender<Result<()>>,
}

/// The answer of a thread of the store's. A paused clock must not jump meanwhile. tokio holds it for a blocking task, and only the
/// clock of a current-thread runtime can be paused.
async fn answered<T>(answer: oneshot::Receiver<Result<T>>) -> Result<T> {
    let is_pausable =
        Handle::try_current().is_ok_and(|it| it.runtime_flavor() == RuntimeFlavor::CurrentThread);
    let _holds_the_clock = is_pausable.then(|| {
        let (hold, held) = mpsc::channel::<()>();
        tokio::task::spawn_blocking(move || held.recv());
        hold
    });
    // A thread that has gone drops the call, and so its answer.
    answer.await.unwrap_or(Err(RedbError::Closed))
}

/// Commits all calls that wait in one transaction, and so on.
fn commit(writes: &Receiver<Call>) {
    while let Ok(first) = writes.recv() {
        let file = Arc::clone(&first.file);
        let calls = iter::once(first).chain(writes.try_iter().take(CALLS - 1));
        let (works, replies): (Vec<_>, Vec<_>) = calls.map(|call| (call.work, call.reply)).unzip();
        let done = file.write(Damaged::new(), |tables| works.into_iter().try_for_each(|work| work(tables)));
        // Before the answers: after them, a caller may drop the store and open the file again at once.
        drop(file);
        for reply in replies {
            // The caller may have gone.
            let _ = reply.send(done.clone());
        }
    }
}

impl RedbStore {
    fn of(file: File) -> Result<Self> {
        let (writes, to_write) = mpsc::channel();
        let (others, to_do) = mpsc::channel::<Box<dyn FnOnce() + Send>>();
        let thread = || thread::Builder::new().name("timers in a file".into());
        let started = thread()
            .spawn(move || commit(&to_write))
            .and_then(|_| thread().spawn(move || to_do.into_iter().for_each(|work| work())));
        started.map_err(|error| RedbError::from(error).of(file.path.as_deref()))?;
        // In the lower half of the counts, so that numbers ascend for two billion saves.
        let first = drawn() >> 33;
        Ok(Self(Arc::new(Threads { file: Arc::new(file), first, writes, others })))
    }

    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&RedbReads) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.aside(|file| file.read(work)).await
    }

    /// Durable when it is ready. If it is dropped before, the call happens or not.
    async fn write<T, W>(&self, work: W) -> Result<T>
    where
        T: Send + 'static,
        W: FnOnce(&mut RedbTables<'_>) -> Result<T> + Send + 'static,
    {
        let ((reply, answer), (done, result)) = (oneshot::channel(), oneshot::channel());
        let work = Box::new(|tables: &mut RedbTables<'_>| {
            let _ = done.send(work(tables)?);
            Ok(())
        });
        let _ = self.0.writes.send(Call { file: Arc::clone(&self.0.file), work, reply });
        answered(answer).await?;
        result.await.map_err(|_| RedbError::Closed)
    }

    /// Works on the thread that does not commit.
    async fn aside<T: Send + 'static>(
        &self,
        work: impl FnOnce(&File) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        let file = Arc::clone(&self.0.file);
        let work = move || {
            let done = work(&file);
            drop(file);
            let _ = reply.send(done);
        };
        let _ = self.0.others.send(Box::new(work));
        answered(answer).await
    }
}
