//! The file: opening it, and opening it again after an error.

use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

use redb::{Database, DatabaseError, ReadableDatabase, ReadableTable, StorageBackend, WriteTransaction};

use super::owner_note::OwnerNote;
use super::reads::RedbReads;
use super::tables::{FORMAT, META, RedbTables, make_tables};
use super::{RedbError, RedbOptions};

pub(super) struct File {
    path: Option<PathBuf>,
    options: RedbOptions,
    /// `None` after an error, until the next call. What has failed stays closed by redb until it is opened again.
    open: RwLock<Option<Open>>,
}

struct Open {
    /// First, so that it is dropped before the lock is let go: a note of the next owner is not deleted.
    _note: Option<OwnerNote>,
    database: Database,
}

impl File {
    pub(super) fn open(path: &Path, options: RedbOptions) -> Result<Self, RedbError> {
        let open = open(path, &options, true)?;
        Ok(Self { path: Some(path.to_owned()), options, open: RwLock::new(Some(open)) })
    }

    pub(super) fn with_backend(
        backend: impl StorageBackend,
        options: RedbOptions,
    ) -> Result<Self, RedbError> {
        let database = Database::builder().set_cache_size(options.cache).create_with_backend(backend)?;
        check(&database)?;
        Ok(Self { path: None, options, open: RwLock::new(Some(Open { database, _note: None })) })
    }

    pub(super) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// In one transaction, which is durable when this returns.
    pub(super) fn write<T>(
        &self,
        work: impl FnOnce(&mut RedbTables<'_>) -> Result<T, RedbError>,
    ) -> Result<T, RedbError> {
        self.with(|database| {
            let transaction = begin(database)?;
            let done = work(&mut RedbTables::open(&transaction)?)?;
            transaction.commit()?;
            Ok(done)
        })
    }

    pub(super) fn read<T>(
        &self,
        work: impl FnOnce(&RedbReads) -> Result<T, RedbError>,
    ) -> Result<T, RedbError> {
        self.with(|database| work(&RedbReads::open(&database.begin_read()?)?))
    }

    pub(super) fn compact(&self) -> Result<(), RedbError> {
        self.reopen()?;
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        let Some(Open { database, .. }) = &mut *open else { return Err(RedbError::Closed) };
        // What it answers is only whether it has moved anything to shrink the file.
        database.compact()?;
        Ok(())
    }

    fn with<T>(&self, work: impl FnOnce(&Database) -> Result<T, RedbError>) -> Result<T, RedbError> {
        self.reopen()?;
        let result = match &*self.open.read().unwrap_or_else(PoisonError::into_inner) {
            Some(open) => work(&open.database),
            None => Err(RedbError::Closed),
        };
        if let (Err(RedbError::Storage(_)), Some(_)) = (&result, &self.path) {
            // All that follows would fail, also where there is room on the disk again.
            *self.open.write().unwrap_or_else(PoisonError::into_inner) = None;
        }
        result
    }

    /// After an error.
    fn reopen(&self) -> Result<(), RedbError> {
        if self.open.read().unwrap_or_else(PoisonError::into_inner).is_some() {
            return Ok(());
        }
        let mut current = self.open.write().unwrap_or_else(PoisonError::into_inner);
        if let (None, Some(path)) = (&*current, &self.path) {
            // A file that is gone is no empty one.
            *current = Some(open(path, &self.options, false)?);
        }
        Ok(())
    }
}

fn begin(database: &Database) -> Result<WriteTransaction, RedbError> {
    let mut transaction = database.begin_write()?;
    transaction.set_quick_repair(true);
    Ok(transaction)
}

fn open(path: &Path, options: &RedbOptions, creates: bool) -> Result<Open, RedbError> {
    let mut builder = Database::builder();
    builder.set_cache_size(options.cache);
    let opened = if creates { builder.create(path) } else { builder.open(path) };
    let database = opened.map_err(|error| match error {
        DatabaseError::DatabaseAlreadyOpen => {
            RedbError::InUse { path: path.to_owned(), owner: OwnerNote::read(path) }
        }
        error => RedbError::Open { path: path.to_owned(), error: Box::new(error.into()) },
    })?;
    check(&database)?;
    // Where it cannot be written, as on a full disk, nobody is told who has the file.
    Ok(Open { _note: OwnerNote::write(path).ok(), database })
}

/// A new file gets its tables, and an old one is looked at.
fn check(database: &Database) -> Result<(), RedbError> {
    let transaction = begin(database)?;
    let is_new = {
        let mut meta = transaction.open_table(META)?;
        let found = meta.get("format")?.map(|found| found.value());
        match found {
            None => drop(meta.insert("format", FORMAT)?),
            Some(found) if found > FORMAT => return Err(RedbError::Newer { found, known: FORMAT }),
            Some(_) => {}
        }
        found.is_none()
    };
    if is_new {
        make_tables(&transaction)?;
        transaction.commit()?;
    } else {
        transaction.abort()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_gone_when_it_is_opened_again_is_not_made_anew() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("timers.redb");
        let file = File::open(&path, RedbOptions::default()).expect("a file");
        // As after an error.
        let close = || *file.open.write().expect("nobody panics") = None;
        close();
        file.read(|_| Ok(())).expect("it is there");
        close();
        std::fs::remove_file(&path).expect("a file");
        let error = file.read(|_| Ok(())).expect_err("it is gone");
        assert!(matches!(error, RedbError::Open { .. }) && !path.exists(), "{error}");
    }
}
