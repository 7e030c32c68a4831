//! Group commit: calls that come during a commit go together into the next transaction.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use tokio::task::spawn_blocking;

use super::file::File;
use super::tables::{RedbReads, RedbTables};
use super::{RedbError, RedbStore, Result};

/// How many calls are one transaction at the most.
const CALLS: usize = 4_096;

pub(super) struct Group {
    pub(super) file: File,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    calls: Vec<Box<dyn Call>>,
    /// A blocking task commits, and will take the calls that come meanwhile.
    is_busy: bool,
}

/// One call, on its way through a transaction.
trait Call: Send {
    fn apply(&mut self, tables: &mut RedbTables<'_>) -> Result<()>;
    /// The transaction is durable, or it failed with this error, and nothing of it was done.
    fn answer(self: Box<Self>, failed: Option<&RedbError>);
}

struct Answering<T, W> {
    work: Option<W>,
    done: Option<T>,
    reply: oneshot::Sender<Result<T, RedbError>>,
}

impl<T, W> Call for Answering<T, W>
where
    T: Send,
    W: FnOnce(&mut RedbTables<'_>) -> Result<T, RedbError> + Send,
{
    fn apply(&mut self, tables: &mut RedbTables<'_>) -> Result<()> {
        if let Some(work) = self.work.take() {
            self.done = Some(work(tables)?);
        }
        Ok(())
    }

    fn answer(self: Box<Self>, failed: Option<&RedbError>) {
        let answer = match (failed, self.done) {
            (None, Some(done)) => Ok(done),
            (Some(error), _) => Err(error.clone()),
            (None, None) => Err(RedbError::Closed),
        };
        // The caller may have gone.
        let _ = self.reply.send(answer);
    }
}

impl Group {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RedbStore {
    pub(super) fn of(file: Result<File>) -> Result<Self> {
        Ok(Self(Arc::new(Group { file: file?, waiting: Mutex::default() })))
    }

    pub(super) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&RedbReads) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.blocking(|file| file.read(work)).await
    }

    /// Durable when it is ready. If it is dropped before, the call happens or not.
    pub(super) async fn write<T, W>(&self, work: W) -> Result<T>
    where
        T: Send + 'static,
        W: FnOnce(&mut RedbTables<'_>) -> Result<T> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let is_first = {
            let mut waiting = self.0.waiting();
            waiting.calls.push(Box::new(Answering { work: Some(work), done: None, reply }));
            !std::mem::replace(&mut waiting.is_busy, true)
        };
        if is_first {
            let commits = Commits(Some(Arc::clone(&self.0)));
            spawn_blocking(move || commits.run());
        }
        answer.await.unwrap_or(Err(RedbError::Closed))
    }

    pub(super) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&File) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let group = Arc::clone(&self.0);
        spawn_blocking(move || work(&group.file)).await.unwrap_or(Err(RedbError::Closed))
    }
}

/// Commits all waiting calls. If this is dropped first, because the runtime ends, the callers get errors.
struct Commits(Option<Arc<Group>>);

impl Commits {
    /// One transaction after the other, until nobody waits.
    fn run(mut self) {
        while let Some(group) = &self.0 {
            let mut calls = {
                let mut waiting = group.waiting();
                let count = waiting.calls.len().min(CALLS);
                waiting.calls.drain(..count).collect::<Vec<_>>()
            };
            let done = group.file.write(|tables| calls.iter_mut().try_for_each(|call| call.apply(tables)));
            let failed = done.err();
            let is_last = {
                let mut waiting = group.waiting();
                waiting.is_busy = !waiting.calls.is_empty();
                !waiting.is_busy
            };
            if is_last {
                // Before the answers: after them, a caller may drop the store and open the file again at once.
                self.0 = None;
            }
            calls.into_iter().for_each(|call| call.answer(failed.as_ref()));
        }
    }
}

impl Drop for Commits {
    fn drop(&mut self) {
        if let Some(group) = &self.0 {
            let mut waiting = group.waiting();
            waiting.is_busy = false;
            waiting.calls.clear();
        }
    }
}
