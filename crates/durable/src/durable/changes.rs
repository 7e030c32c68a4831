//! Cancels and moves timers, and retries or deletes buried ones.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::{OwnedRwLockReadGuard, oneshot};
use tokio::time::Instant;

use super::Durable;
use crate::error::Error;
use crate::id::TimerId;
use crate::runner::{Command, End, TakeBack, TookBack};
use crate::store::{Answered, Move, Near, Removal, Taken, Which};

/// The answer to a cancel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// The timer is gone: no handler is called for it.
    Removed,
    /// Its handler has been called, for this attempt, and may have ended by now. Nothing follows: no other attempt, and
    /// no other occurrence of its series. There is one exception: if the process dies before the attempt ends, the
    /// timer is attempted again.
    ///
    /// If instances share a store, another instance may have begun the timer and not called the handler yet. If that
    /// instance stops, it gives the timer back, and the handler is not called. A second cancel then answers
    /// [`Removed`](Self::Removed). A cancel also answers "running" if somebody has edited the
    /// timer's row in the database, so that it cannot be read.
    Running(u32),
    /// There is no such timer: it is done, was removed before, or never existed.
    NotFound,
}

/// The answer to a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// It is due at another time now. Its id is the same.
    Moved(TimerId),
    /// Its handler has been called, for this attempt.
    Running(u32),
    /// There is no such timer.
    NotFound,
}

/// How long a cancel waits for an instance that may give a timer back, at the most, and how often it asks.
const GIVEN_BACK: Duration = Duration::from_millis(500);
const ASKS_AGAIN: Duration = Duration::from_millis(25);

/// A stop waits until nobody holds it.
pub(crate) type Calling = Arc<OwnedRwLockReadGuard<()>>;

impl Durable {
    /// Cancels a timer, by its id or its key. This succeeds until the handler is called, or until another instance has
    /// begun the timer.
    ///
    /// A cancel of a series ends the series.
    ///
    /// # Cancel safety
    /// If this is dropped before it is ready, the timer may be removed or not.
    ///
    /// # Errors
    /// [`Error::Store`], after which the timer is removed or not; [`Error::Stopped`]; [`Error::Lost`]; [`Error::Failed`].
    pub async fn cancel(&self, which: impl Into<Which>) -> Result<Cancelled, Error> {
        let calling = self.calling().await?;
        let mut which = which.into();
        let _cancelling = Arc::clone(&self.0.shared.cancels);
        // The attempt that this call was told of. From there on nothing follows it.
        let mut begun = None;
        let mut asked_at = Instant::now();
        loop {
            match self.on_its_own(&calling, self.0.store.clone().cancel(which.clone())).await? {
                // It ended meanwhile, and nothing followed because of this call.
                Removal::NotFound => {
                    return Ok(begun.map_or(Cancelled::NotFound, |(_, attempt)| Cancelled::Running(attempt)));
                }
                Removal::Removed(near) => {
                    drop(self.0.runner.send(Command::Removed(near)));
                    return Ok(Cancelled::Removed);
                }
                Removal::Running(id, attempt) => {
                    // By the next question, the key may belong to another timer.
                    which = Which::Id(id);
                    let is_first = begun.replace((id, attempt)) != Some((id, attempt));
                    match self.take_back(id, End::Cancelled).await {
                        TookBack::Yes => return Ok(Cancelled::Removed),
                        TookBack::Gone => return Ok(Cancelled::NotFound),
                        TookBack::Runs => return Ok(Cancelled::Running(attempt)),
                        TookBack::AskAgain => {}
                        // Another instance may have begun it ahead of its time, and give it back as it stops.
                        TookBack::Unknown if is_first => asked_at = Instant::now(),
                        TookBack::Unknown if self.may_be_given_back(id, asked_at) => {
                            tokio::time::sleep(ASKS_AGAIN).await;
                        }
                        TookBack::Unknown => return Ok(Cancelled::Running(attempt)),
                    }
                }
            }
        }
    }

    /// Whether another instance may have begun the timer without calling its handler yet. An instance begins timers up
    /// to a tenth of a second ahead. If it gives one back, the store may know that a tenth of a second later.
    fn may_be_given_back(&self, id: TimerId, asked_at: Instant) -> bool {
        let passed = self.now().duration_since(id.first_due());
        self.0.store.is_shared()
            && passed < SignedDuration::from_millis(300)
            && asked_at.elapsed() < GIVEN_BACK
    }

    /// Moves a timer to another time, earlier or later, by its id or its key. This succeeds until the handler is
    /// called, or until another instance has begun the timer.
    ///
    /// Only this occurrence of a series moves. The next occurrence follows the rule, as if this one had not moved.
    ///
    /// # Cancel safety
    /// If this is dropped before it is ready, the timer may be moved or not.
    ///
    /// # Errors
    /// [`Error::Store`], after which the timer is moved or not; [`Error::Stopped`]; [`Error::Lost`]; [`Error::Failed`].
    pub async fn reschedule(&self, which: impl Into<Which>, due: Timestamp) -> Result<Moved, Error> {
        let which = which.into();
        let mut unknown = None;
        loop {
            let moving = self.0.store.clone().reschedule(which.clone(), due);
            let moved = |moved: &Move| if let Move::Moved { to, .. } = moved { Some(*to) } else { None };
            match self.tell_of(moving, moved).await? {
                Move::NotFound => return Ok(Moved::NotFound),
                Move::Moved { from: _, to } => return Ok(Moved::Moved(to.id())),
                Move::Running(id, attempt) => {
                    let end = End::Again { due, error: None, counts: false };
                    match self.take_back(id, end).await {
                        TookBack::Yes => return Ok(Moved::Moved(id)),
                        TookBack::Runs => return Ok(Moved::Running(attempt)),
                        TookBack::Gone | TookBack::AskAgain => {}
                        TookBack::Unknown if unknown == Some((id, attempt)) => {
                            return Ok(Moved::Running(attempt));
                        }
                        TookBack::Unknown => unknown = Some((id, attempt)),
                    }
                }
            }
        }
    }

    async fn take_back(&self, id: TimerId, end: End) -> TookBack {
        let (reply, told) = oneshot::channel();
        drop(self.0.runner.send(Command::TakeBack(id, TakeBack { end, reply })));
        // A runner that has stopped has told the store everything.
        told.await.unwrap_or(TookBack::Unknown)
    }

    /// The runner has to hear of every stored timer. So it gets the notice also if the caller is dropped.
    async fn tell_of<T: Send + 'static>(
        &self,
        call: Answered<T>,
        stored: impl FnOnce(&T) -> Option<Near> + Send + 'static,
    ) -> Result<T, Error> {
        let (runner, calling) = (self.0.runner.clone(), self.calling().await?);
        let telling = async move {
            let answer = call.await;
            let command = match &answer {
                Ok(answer) => stored(answer).map(|near| Command::Saved(vec![near])),
                Err(_) => Some(Command::LoadAnew),
            };
            // A runner that has stopped arms nothing.
            if let Some(command) = command {
                drop(runner.send(command));
            }
            answer
        };
        self.on_its_own(&calling, telling).await
    }

    /// Begins a change, unless a stop has come. The check is last: a stop may come while this waits.
    pub(crate) async fn calling(&self) -> Result<Calling, Error> {
        let calling = self.0.calls.clone().read_owned().await;
        self.check()?;
        Ok(Arc::new(calling))
    }

    /// Makes a call of the store in a task of its own: if the caller is dropped, a stop still waits for the call, as a store may go
    /// on with it and hold its file.
    async fn on_its_own<T: Send + 'static>(
        &self,
        calling: &Calling,
        call: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        let calling = Arc::clone(calling);
        let task = self.0.runtime.spawn(async move {
            let answer = call.await;
            drop(calling);
            answer
        });
        match task.await {
            Ok(answer) => answer,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            // The runtime has ended.
            Err(_) => Err(Error::Stopped),
        }
    }

    /// Attempts a buried timer again, now. Its attempts are counted from 1 again.
    ///
    /// # Cancel safety
    /// If this is dropped before it is ready, it goes on by itself.
    ///
    /// # Errors
    /// [`Error::Store`], after which it is stored again or not; [`Error::Stopped`]; [`Error::Lost`]; [`Error::Failed`].
    pub async fn retry_buried(&self, id: TimerId) -> Result<Taken, Error> {
        let now = self.now();
        let retrying = self.0.store.clone().unbury(id, Some(now));
        let stored = |taken: &Taken| if let Taken::Stored(near) = taken { Some(*near) } else { None };
        self.tell_of(retrying, stored).await
    }

    /// Deletes a buried timer.
    ///
    /// # Cancel safety
    /// If this is dropped before it is ready, the timer may be deleted or not.
    ///
    /// # Errors
    /// [`Error::Store`], after which it is deleted or not; [`Error::Stopped`]; [`Error::Lost`]; [`Error::Failed`].
    pub async fn delete_buried(&self, id: TimerId) -> Result<Taken, Error> {
        let calling = self.calling().await?;
        self.on_its_own(&calling, self.0.store.clone().unbury(id, None)).await
    }
}
