//! The handle.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use timingwheel::TimingWheel;
use timingwheel_calendar::Plan;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

use crate::builder::Builder;
use crate::error::Error;
use crate::id::TimerId;
use crate::kind::Kind;
use crate::outcome::{Cancelled, Moved};
use crate::runner::{Command, GRACE, Stopped, TakeBack, TookBack};
use crate::save::Saving;
use crate::saver::{Save, ToSave};
use crate::shared::Shared;
use crate::stats::Stats;
use crate::store::{
    Answered, Counts, End, ErasedStore, Move, Near, Owner, Page, Removal, Store, Stored, Taken, Which,
};

/// Timers that outlive the process: saved in a store, handed to handlers when they are due.
///
/// Cloning is cheap, and clones are the same. When the last one is dropped nothing more begins, what runs is waited for,
/// and its results are stored; [`stop`](Self::stop) does that too, with a limit, and tells what became of them.
///
/// # Promises
/// - What is saved is handed to a handler at its time, also if the process is killed in between, **at least once**: an
///   attempt whose process dies before its result is stored is made again, with a higher number.
/// - Not before its time, by the wall clock.
/// - Never after a cancel has answered [`Removed`](Cancelled::Removed).
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), timingwheel_durable::Error> {
/// use std::time::Duration;
///
/// use serde::{Deserialize, Serialize};
/// use timingwheel::TimingWheel;
/// use timingwheel_durable::{Answer::Done, Cancelled, Durable, Kind, MemoryStore, Run};
///
/// #[derive(Serialize, Deserialize)]
/// struct CancelOrder {
///     order: u64,
/// }
///
/// impl Kind for CancelOrder {
///     const KIND: &'static str = "cancel-order";
/// }
///
/// let durable = Durable::builder(&TimingWheel::new(), MemoryStore::new())
///     .on(|CancelOrder { order }, _: Run| async move {
///         println!("order {order} was not paid");
///         Ok(Done)
///     })
///     .start()
///     .await?;
/// let month = Duration::from_secs(30 * 86_400);
/// durable.after(month, &CancelOrder { order: 42 }).key("order-42").save().await?;
///
/// // It is paid.
/// assert_eq!(durable.cancel("order-42").await?, Cancelled::Removed);
/// durable.stop(Duration::from_secs(20)).await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Durable(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) wheel: TimingWheel,
    pub(crate) shared: Arc<Shared>,
    pub(crate) store: Arc<dyn ErasedStore>,
    pub(crate) owner: Owner,
    pub(crate) saves: mpsc::UnboundedSender<ToSave>,
    pub(crate) runner: mpsc::UnboundedSender<Command>,
    pub(crate) unique: AtomicU64,
    pub(crate) runtime: Handle,
}

/// The last handle goes.
impl Drop for Inner {
    fn drop(&mut self) {
        // One that has stopped takes no message.
        drop(self.runner.send(Command::Stop(None)));
    }
}

impl Durable {
    /// Durable timers on this wheel and in this store.
    pub fn builder<S: Store>(wheel: &TimingWheel, store: S) -> Builder {
        Builder::new(wheel, store)
    }

    /// A timer that is due then. In the past, it is due at once. A fraction of a millisecond counts as a whole one.
    pub fn at<K: Kind>(&self, due: Timestamp, payload: &K) -> Saving<'_> {
        Saving::once(self, due, payload)
    }

    /// A timer that is due so much later, by the clock on the wall. What is beyond the year 9999 is at its end.
    pub fn after<K: Kind>(&self, delay: Duration, payload: &K) -> Saving<'_> {
        let delay = SignedDuration::try_from(delay).unwrap_or(SignedDuration::MAX);
        self.at(self.now().saturating_add(delay).unwrap_or(Timestamp::MAX), payload)
    }

    /// A series: timers that are due by a rule of `timingwheel-calendar`, one after the other, under one name.
    ///
    /// To save it again changes nothing, so a program saves its series each time that it starts. With another rule,
    /// policy or payload it goes on by these.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use serde::{Deserialize, Serialize};
    /// # use timingwheel::TimingWheel;
    /// # use timingwheel_durable::{Answer::Done, Durable, Kind, MemoryStore, Missed, Run};
    /// # #[derive(Serialize, Deserialize)]
    /// # struct Report;
    /// # impl Kind for Report {
    /// #     const KIND: &'static str = "report";
    /// # }
    /// use jiff::tz::TimeZone;
    /// use timingwheel_calendar::Cron;
    ///
    /// let durable = Durable::builder(&TimingWheel::new(), MemoryStore::new())
    ///     .on(|_: Report, run: Run| async move {
    ///         println!("the report of {}", run.scheduled());
    ///         Ok(Done)
    ///     })
    ///     .start()
    ///     .await?;
    /// let evenings = Cron::parse("0 17 * * MON-FRI")?.in_zone(TimeZone::get("Europe/Berlin")?);
    /// durable.every("evening-report", evenings, &Report).missed(Missed::once()).save().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn every<K: Kind>(&self, name: impl Into<String>, plan: impl Into<Plan>, payload: &K) -> Saving<'_> {
        Saving::series(self, name.into(), plan.into(), payload)
    }

    /// Cancels a timer, by its id or its key. It wins until the handler is called.
    ///
    /// A series ends with it.
    ///
    /// # Cancel safety
    /// If this is dropped before it is ready, the timer may be removed or not.
    ///
    /// # Errors
    /// [`Error::Store`], after which the timer is removed or not; [`Error::Stopped`]; [`Error::Lost`].
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

    /// Moves a timer to another time, earlier or later, by its id or its key. It wins until the handler is called.
    ///
    /// A series goes on from its plan after that, as if this occurrence had come at its time.
    ///
    /// # Cancel safety
    /// If this is dropped before it is ready, the timer may be moved or not.
    ///
    /// # Errors
    /// [`Error::Store`], after which the timer is moved or not; [`Error::Stopped`]; [`Error::Lost`].
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
            command.map(|command| runner.send(command));
            answer
        });
        match task.await {
            Ok(answer) => answer,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            // With the runtime.
            Err(_) => Err(Error::Stopped),
        }
    }

    /// The timers of a page: those that are stored or have begun, in the order in which they are due, or those that are
    /// [buried](crate::store::Buried).
    ///
    /// # Errors
    /// [`Error::Store`].
    pub async fn list(&self, page: Page) -> Result<Vec<Stored>, Error> {
        self.0.store.clone().list(page).await
    }

    /// How many timers there are.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub async fn count(&self) -> Result<Counts, Error> {
        self.0.store.clone().count().await
    }

    /// Attempts a buried timer again, now, with all its attempts before it.
    ///
    /// # Errors
    /// [`Error::Store`], after which it is stored again or not; [`Error::Stopped`]; [`Error::Lost`].
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
    /// [`Error::Store`], after which it is deleted or not; [`Error::Stopped`]; [`Error::Lost`].
    pub async fn delete_buried(&self, id: TimerId) -> Result<Taken, Error> {
        self.check()?;
        Ok(self.0.store.clone().unbury(vec![id], None).await?.pop().unwrap_or(Taken::NotFound))
    }

    /// What has happened since the start, and what holds now.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let mut stats = self.0.shared.stats().clone();
        stats.stopped |= self.0.shared.is_stopped();
        stats
    }

    /// The time by the clock on the wall.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.0.shared.now()
    }

    /// Begins nothing more, waits for the handlers that run, for up to `limit`, and stores what they answer. Then those
    /// that still run are dropped, and what has not ended is given back to the store. Nothing runs any more when this is
    /// ready, but for handlers that [block their threads](Stopped::left_running).
    ///
    /// # Cancel safety
    /// If this is dropped before it is ready, it goes on by itself.
    pub async fn stop(&self, limit: Duration) -> Stopped {
        self.0.shared.stop();
        let (reply, stopped) = oneshot::channel();
        drop(self.0.runner.send(Command::Stop(Some((limit, reply)))));
        // Of one that has stopped before there is nothing to tell.
        let stopped = stopped.await.unwrap_or_default();
        let (reply, saved) = oneshot::channel();
        drop(self.0.saves.send(ToSave::Stop(reply)));
        // Or it has ended before, or the store hangs.
        let _ = tokio::time::timeout(GRACE, saved).await;
        stopped
    }

    fn check(&self) -> Result<(), Error> {
        if self.0.shared.is_stopped() {
            Err(Error::Stopped)
        } else if self.0.shared.is_lost() {
            Err(Error::Lost)
        } else {
            Ok(())
        }
    }

    pub(crate) fn save(&self, save: Save) -> Result<(), Error> {
        self.check()?;
        self.0.store.check(&save.timer)?;
        self.0.saves.send(ToSave::Save(save)).map_err(|_| Error::Stopped)
    }

    /// A number that no other timer of the store has: epochs are used once.
    pub(crate) fn unique(&self, due: Timestamp, kind: &str) -> u64 {
        let count = self.0.unique.fetch_add(1, Ordering::Relaxed);
        self.0.store.number(self.0.owner, count, due, kind)
    }
}

impl fmt::Debug for Durable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { wheel, owner, .. } = &*self.0;
        f.debug_struct("Durable").field("wheel", wheel).field("epoch", &owner.epoch).finish_non_exhaustive()
    }
}
