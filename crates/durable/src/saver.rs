//! Batches of saves: the saves that come while one call of the store is under way go out together in the next.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use crate::error::Error;
use crate::id::TimerId;
use crate::runner::Command;
use crate::shared::{Shared, Watched};
use crate::store::{ErasedStore, Near, NewTimer, Saved};

/// How many go out together at the most.
const BATCH: usize = 4_096;

/// How many bytes of payloads go out together at the most, unless one alone has more.
const BATCH_BYTES: usize = 16 << 20;

/// What it is told.
pub(crate) enum ToSave {
    Save(Save),
    /// Nothing more comes. Who says so waits until all that came before is stored, and the store let go.
    Stop(oneshot::Sender<()>),
}

impl ToSave {
    /// How many bytes of payload it has.
    fn len(&self) -> usize {
        match self {
            Self::Save(save) => save.timer.payload.len(),
            Self::Stop(_) => 0,
        }
    }
}

/// A timer on its way to the store, and who waits for it.
pub(crate) struct Save {
    pub(crate) timer: NewTimer,
    pub(crate) reply: oneshot::Sender<Result<TimerId, Error>>,
}

pub(crate) struct Saver {
    pub(crate) shared: Arc<Shared>,
    pub(crate) store: Arc<dyn ErasedStore>,
    pub(crate) saves: mpsc::UnboundedReceiver<ToSave>,
    pub(crate) runner: mpsc::UnboundedSender<Command>,
}

impl Saver {
    /// Until nobody can save any more.
    pub(crate) async fn run(mut self) {
        let _watched = Watched(Arc::clone(&self.shared));
        let mut batch = Vec::new();
        let mut stops = Vec::new();
        while stops.is_empty() && self.saves.recv_many(&mut batch, BATCH).await > 0 {
            let mut told = batch.drain(..).peekable();
            while told.peek().is_some() {
                let (mut ids, mut timers, mut replies) = (Vec::new(), Vec::new(), Vec::new());
                let mut bytes = 0;
                while let Some(next) = told.next_if(|next| bytes == 0 || bytes + next.len() <= BATCH_BYTES) {
                    bytes += next.len();
                    match next {
                        ToSave::Save(Save { timer, reply }) => {
                            ids.push(timer.id);
                            timers.push(timer);
                            replies.push(reply);
                        }
                        ToSave::Stop(reply) => stops.push(reply),
                    }
                }
                if timers.is_empty() {
                    continue;
                }
                match self.store.clone().save(timers).await {
                    Ok(answers) => self.saved(ids, answers, replies),
                    Err(error) => self.failed(&error, replies),
                }
            }
        }
        drop(self);
        for stop in stops {
            // Who does not wait any more needs no answer.
            let _ = stop.send(());
        }
    }

    fn saved(
        &self,
        ids: Vec<TimerId>,
        answers: Vec<Saved>,
        replies: Vec<oneshot::Sender<Result<TimerId, Error>>>,
    ) {
        let (mut nears, mut count) = (Vec::with_capacity(ids.len()), 0);
        let mut told = Vec::with_capacity(ids.len());
        for (id, answer) in ids.into_iter().zip(answers) {
            told.push(match answer {
                Saved::Stored => {
                    nears.push(Near::from(id));
                    Ok(id)
                }
                Saved::Replaced(old) => {
                    drop(self.runner.send(Command::Removed(old)));
                    nears.push(Near::from(id));
                    Ok(id)
                }
                Saved::Kept(old) | Saved::Updated(old) => {
                    // The call that stored it may have failed after that. What is armed already costs nothing.
                    nears.push(Near::from(old));
                    Ok(old)
                }
                Saved::KeyTaken(old) => {
                    nears.push(Near::from(old));
                    Err(Error::KeyTaken(old))
                }
            });
            count += u64::from(told.last().is_some_and(Result::is_ok));
        }
        // Armed before anybody knows that they are stored.
        drop(self.runner.send(Command::Saved(nears)));
        {
            let mut stats = self.shared.stats();
            stats.saved += count;
            stats.save_batches += 1;
        }
        for (reply, told) in replies.into_iter().zip(told) {
            // Who dropped the save does not want to know.
            drop(reply.send(told));
        }
    }

    fn failed(&self, error: &Error, replies: Vec<oneshot::Sender<Result<TimerId, Error>>>) {
        let text: Arc<str> = error.to_string().into();
        let is_transient = matches!(error, Error::Store { is_transient: true, .. });
        self.shared.failed(error);
        // They may be stored all the same.
        drop(self.runner.send(Command::LookAnew));
        for reply in replies {
            let error = Error::Store { source: Box::new(Together(Arc::clone(&text))), is_transient };
            drop(reply.send(Err(error)));
        }
    }
}

/// One error, for all that were saved together.
#[derive(Debug)]
struct Together(Arc<str>);

impl std::fmt::Display for Together {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Together {}
