//! Changing what is stored: cancels, moves, and what is done with the buried.

use jiff::Timestamp;
use tokio::sync::oneshot;

use super::Durable;
use crate::error::Error;
use crate::id::TimerId;
use crate::outcome::{Cancelled, Moved};
use crate::runner::{Command, TakeBack, TookBack};
use crate::store::{Answered, End, Move, Near, Removal, Taken, Which};

impl Durable {
    /// Cancels a timer, by its id or its key. This succeeds until the handler is called.
    ///
    /// A series ends with it.
    ///
    /// # Cancel safety
    /// If this is dropped before it is ready, the timer may be removed or not.
    ///
    /// # Errors
    /// [`Error::Store`], after which the timer is removed or not; [`Error::Stopped`]; [`Error::Lost`]; [`Error::Failed`].
    pub async fn cancel(&self, which: impl Into<Which>) -> Result<Cancelled, Error> {
        self.check()?;
        let which = which.into();
        let _cancelling = self.0.shared.cancelling();
        let mut unknown = None;
        loop {
            let removal = self.0.store.clone().cancel(vec![which.clone()]).await?.pop();
            match removal.unwrap_or(Removal::NotFound) {
                Removal::NotFound => return Ok(Cancelled::NotFound),
                Removal::Removed(near) => {
                    drop(self.0.runner.send(Command::Removed(near)));
                    return Ok(Cancelled::Removed);
                }
                Removal::Running(id, attempt) => match self.take_back(id, End::Cancelled).await {
                    TookBack::Yes => return Ok(Cancelled::Removed),
                    TookBack::Runs => return Ok(Cancelled::Running(attempt)),
                    TookBack::AskAgain => {}
                    TookBack::Unknown if unknown == Some((id, attempt)) => {
                        return Ok(Cancelled::Running(attempt));
                    }
                    TookBack::Unknown => unknown = Some((id, attempt)),
                },
            }
        }
    }

    /// Moves a timer to another time, earlier or later, by its id or its key. This succeeds until the handler is
    /// called.
    ///
    /// A series goes on from its plan after that, as if this occurrence had come at its time.
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
            self.check()?;
            let moving = self.0.store.clone().reschedule(which.clone(), due);
            let moved = |moved: &Move| match moved {
                Move::Moved { to, .. } => Some(*to),
                Move::Running(..) | Move::NotFound => None,
            };
            match self.tell_of(moving, moved).await? {
                Move::NotFound => return Ok(Moved::NotFound),
                Move::Moved { from: _, to } => return Ok(Moved::Moved(to.id())),
                Move::Running(id, attempt) => {
                    let end = End::Again { due, error: None, counts: false };
                    match self.take_back(id, end).await {
                        TookBack::Yes => return Ok(Moved::Moved(id)),
                        TookBack::Runs => return Ok(Moved::Running(attempt)),
                        TookBack::AskAgain => {}
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
        // A runner that has gone has left to the store what it knew.
        told.await.unwrap_or(TookBack::Unknown)
    }

    /// What a call of the store has stored, the runner has to hear of. So the call is a task of its own: a caller that is
    /// dropped does not take the notice with it.
    async fn tell_of<T: Send + 'static>(
        &self,
        call: Answered<T>,
        stored: impl FnOnce(&T) -> Option<Near> + Send + 'static,
    ) -> Result<T, Error> {
        let runner = self.0.runner.clone();
        let task = self.0.runtime.spawn(async move {
            let answer = call.await;
            let command = match &answer {
                Ok(answer) => stored(answer).map(|near| Command::Saved(vec![near])),
                Err(_) => Some(Command::LookAnew),
            };
            // A runner that has stopped arms nothing.
            if let Some(command) = command {
                drop(runner.send(command));
            }
            answer
        });
        match task.await {
            Ok(answer) => answer,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            // With the runtime.
            Err(_) => Err(Error::Stopped),
        }
    }

    /// Attempts a buried timer again, now. Its attempts are counted from 1 again.
    ///
    /// # Errors
    /// [`Error::Store`], after which it is stored again or not; [`Error::Stopped`]; [`Error::Lost`]; [`Error::Failed`].
    pub async fn revive(&self, id: TimerId) -> Result<Taken, Error> {
        self.check()?;
        let now = self.now();
        let reviving = self.0.store.clone().unbury(vec![id], Some(now));
        let stored = |taken: &Vec<Taken>| match taken.last() {
            Some(Taken::Stored(near)) => Some(*near),
            _ => None,
        };
        Ok(self.tell_of(reviving, stored).await?.pop().unwrap_or(Taken::NotFound))
    }

    /// Deletes a buried timer.
    ///
    /// # Errors
    /// [`Error::Store`], after which it is deleted or not; [`Error::Stopped`]; [`Error::Lost`]; [`Error::Failed`].
    pub async fn delete_buried(&self, id: TimerId) -> Result<Taken, Error> {
        self.check()?;
        Ok(self.0.store.clone().unbury(vec![id], None).await?.pop().unwrap_or(Taken::NotFound))
    }
}
