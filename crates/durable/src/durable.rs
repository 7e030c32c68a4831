//! The handle: saves, cancels and moves timers, shows them, and retries or deletes buried ones.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use timingwheel::TimingWheel;
use timingwheel_calendar::Plan;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::builder::Builder;
use crate::error::Error;
use crate::handler::{Kind, Run};
use crate::health::Stats;
use crate::id::{TimerId, later};
use crate::runner::{Command, GRACE, Stopped};
use crate::save::{Save, Saving, SavingSeries};
use crate::shared::Shared;
use crate::store::{
    Answered, Counts, ErasedStore, Move, Near, NewTimer, Page, Removal, State, Store, Stored, Taken, Which,
};

/// Timers that outlive the process. A store keeps them, and handlers are called for them when they are due.
///
/// Cloning is cheap, and all clones are the same `Durable`. When the last clone is dropped, no more timers begin.
/// Running handlers go on to their end, and their results are stored. [`stop`](Self::stop) does the same within a time
/// limit, and returns what became of the timers.
///
/// # Promises
/// - The handler of a saved timer is called at its time, **at least once**, even if the process is killed in between.
///   If the process dies before the result of an attempt is stored, the attempt is made again, with a higher number.
/// - No handler is called before the time of its timer, by the wall clock.
/// - No handler is called after a cancel has answered [`Removed`](crate::Cancelled::Removed).
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
    pub(crate) saves: mpsc::UnboundedSender<Save>,
    pub(crate) runner: mpsc::UnboundedSender<Command>,
    pub(crate) runtime: Handle,
    /// Calls that go on without their callers. A stop waits for them.
    pub(crate) calls: TaskTracker,
    /// Held while a kind is paused or resumed: the runner hears the answers in their order.
    pub(crate) pausing: tokio::sync::Mutex<()>,
}

/// The last handle goes.
impl Drop for Inner {
    fn drop(&mut self) {
        // A runner that has stopped takes no messages.
        drop(self.runner.send(Command::Stop(None)));
    }
}

impl Durable {
    /// Durable timers on this wheel and in this store.
    pub fn builder<S: Store>(wheel: &TimingWheel, store: S) -> Builder {
        Builder::new(wheel, store)
    }

    /// A timer that is due at `due`. If `due` is in the past, the timer is due at once. A fraction of a millisecond
    /// counts as a whole one.
    pub fn at<K: Kind>(&self, due: Timestamp, payload: &K) -> Saving<&Durable> {
        Saving::new(self, due, payload)
    }

    /// A timer that is due `delay` from now, by the wall clock, but not after the end of the year 9999.
    pub fn after<K: Kind>(&self, delay: Duration, payload: &K) -> Saving<&Durable> {
        self.at(later(self.now(), delay), payload)
    }

    /// A series: timers that are due by a rule of `timingwheel-calendar`, one after the other, under one name.
    ///
    /// A second save of the same series changes nothing, so a program can save its series at each start. A save with
    /// another policy or payload updates the series, and a pending run keeps its time. A save with another rule plans
    /// the series anew. The [answer](SavingSeries::save) tells which of these was done.
    ///
    /// The runs of a series never overlap. While a run takes long, or fails and waits for its next attempt, no other run begins: by
    /// the default [`Backoff`](crate::Backoff) that may be for three days. Instants that pass meanwhile are
    /// [missed](SavingSeries::missed). So give the kind of a frequent series few [tries](crate::Backoff::tries): after the last one
    /// the run is buried, and the series goes on.
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
    pub fn every<K: Kind>(
        &self,
        name: impl Into<String>,
        plan: impl Into<Plan>,
        payload: &K,
    ) -> SavingSeries<&Durable> {
        SavingSeries::new(self, name.into(), plan.into(), payload)
    }

    /// The timers of a page. They are either the stored and begun timers, in the order of their due times, or the
    /// [buried](crate::store::Buried) timers.
    ///
    /// The store is asked for 2,500 timers at a time, so a longer page is not of one moment.
    ///
    /// # Cancel safety
    /// It only reads, and can be called again.
    ///
    /// # Errors
    /// [`Error::Store`].
    ///
    /// # Examples
    ///
    /// ```
    /// use timingwheel_durable::store::Page;
    /// use timingwheel_durable::{Durable, Error};
    ///
    /// /// Prints all dead letters, a page of a hundred at a time.
    /// async fn dead_letters(durable: &Durable) -> Result<(), Error> {
    ///     let mut page = Page { buried: true, ..Page::default() };
    ///     loop {
    ///         let timers = durable.list(page.clone()).await?;
    ///         for stored in &timers {
    ///             println!("{} {}: {:?}", stored.timer.id(), stored.kind, stored.failures.last());
    ///         }
    ///         let Some(last) = timers.last() else { return Ok(()) };
    ///         page.after = last.timer.place();
    ///     }
    /// }
    /// ```
    pub async fn list(&self, page: Page) -> Result<Vec<Stored>, Error> {
        self.0.store.clone().list(page).await
    }

    /// The timer with this id or key, if it is stored or has begun.
    ///
    /// # Cancel safety
    /// It only reads, and can be called again.
    ///
    /// # Errors
    /// [`Error::Store`].
    ///
    /// # Examples
    ///
    /// ```
    /// # use timingwheel_durable::{Durable, Error};
    /// async fn is_to_be_cancelled(durable: &Durable, order: u64) -> Result<bool, Error> {
    ///     Ok(durable.get(format!("order-{order}")).await?.is_some())
    /// }
    /// ```
    pub async fn get(&self, which: impl Into<Which>) -> Result<Option<Stored>, Error> {
        self.0.store.clone().get(which.into()).await
    }

    /// The number of timers that are stored, begun and buried.
    ///
    /// # Cancel safety
    /// It only reads, and can be called again.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub async fn count(&self) -> Result<Counts, Error> {
        self.0.store.clone().count().await
    }

    /// Statistics since the start, and the present state.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let behind = self.0.shared.behind();
        Stats { behind, ..self.0.shared.stats().clone() }
    }

    /// The time by the wall clock.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.0.shared.now()
    }

    /// For tests, on tokio's paused clock: lets time pass until `at`, and then until all timers that are due by then and have a handler
    /// here have ended. So a year passes in a moment.
    ///
    /// # Cancel safety
    /// It only waits, and can be called again.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub async fn run_until(&self, at: Timestamp) -> Result<(), Error> {
        loop {
            let left = at.duration_since(self.now());
            if left <= SignedDuration::ZERO && !self.has_due(at).await? {
                return Ok(());
            }
            let left = Duration::try_from(left).unwrap_or_default().max(Duration::from_millis(1));
            self.0.wheel.sleep(left).await;
        }
    }

    /// Whether a timer is due by then that has begun or has a handler here.
    async fn has_due(&self, by: Timestamp) -> Result<bool, Error> {
        let mut page = Page::default();
        loop {
            let timers = self.list(page.clone()).await?;
            let Some(last) = timers.last() else { return Ok(false) };
            page.after = last.timer.place();
            for Stored { timer, kind, state, .. } in &timers {
                if timer.due() > by {
                    return Ok(false);
                }
                if *state != State::Stored || self.0.shared.has_handler(kind) {
                    return Ok(true);
                }
            }
        }
    }

    /// Begins no more timers, waits up to `limit` for the handlers that run, and stores their results. After the limit
    /// it drops the handlers that still run, and gives their timers back to the store. When `stop` returns, no handler
    /// runs any more, except handlers that [block their threads](Stopped::left_running).
    ///
    /// If handlers block their threads or the store is slow, `stop` returns up to four seconds after the limit. So let
    /// a supervisor wait longer than that before it kills the process.
    ///
    /// The store stays open for calls that only look, until the last `Durable` is dropped. Until then no program can open
    /// its file.
    ///
    /// # Cancel safety
    /// If this is dropped before it is ready, it goes on by itself.
    pub async fn stop(&self, limit: Duration) -> Stopped {
        self.0.shared.stats().stopped = true;
        let (reply, stopped) = oneshot::channel();
        drop(self.0.runner.send(Command::Stop(Some((limit, reply)))));
        // A runner that had stopped before has nothing to tell.
        let stopped = stopped.await.unwrap_or_default();
        // The store may hang.
        self.0.calls.close();
        let _ = tokio::time::timeout(GRACE, self.0.calls.wait()).await;
        stopped
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        let stats = self.0.shared.stats();
        match (stats.stopped || self.0.wheel.is_ended(), stats.lost, stats.failed) {
            (true, ..) => Err(Error::Stopped),
            (_, true, _) => Err(Error::Lost),
            (.., true) => Err(Error::Failed),
            _ => Ok(()),
        }
    }

    /// A number that no other timer of the store has: epochs are used once.
    pub(crate) fn unique(&self, due: Timestamp, kind: &str) -> u64 {
        self.0.store.number(self.0.shared.owner(), self.0.shared.count(), due, kind)
    }
}

impl fmt::Debug for Durable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Durable").field("epoch", &self.0.shared.owner().epoch).finish_non_exhaustive()
    }
}

impl Run {
    /// A run for the unit test of a handler: the first attempt of a timer without a key that is due now. A test changes the
    /// fields as it needs. No timer is stored for it.
    ///
    /// # Examples
    ///
    /// ```
    /// # use serde::{Deserialize, Serialize};
    /// # use timingwheel::TimingWheel;
    /// # use timingwheel_durable::{Answer, Durable, Error, HandlerResult, Interrupt, Kind, MemoryStore, Run};
    /// # #[derive(Serialize, Deserialize)]
    /// # struct Crawl;
    /// # impl Kind for Crawl { const KIND: &'static str = "crawl"; }
    /// async fn crawl(_: Crawl, run: Run) -> HandlerResult {
    ///     run.token().cancelled().await;
    ///     Ok(Answer::Bury(format!("attempt {}: {:?}", run.attempt, run.interrupted())))
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Error> {
    /// let durable = Durable::builder(&TimingWheel::new(), MemoryStore::new()).start().await?;
    /// let mut run = Run::in_test::<Crawl>(&durable);
    /// run.attempt = 3;
    /// run.interrupt(Interrupt::Stop);
    /// assert_eq!(crawl(Crawl, run).await.unwrap(), Answer::Bury("attempt 3: Some(Stop)".to_owned()));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn in_test<K: Kind>(durable: &Durable) -> Self {
        let due = durable.now();
        let id = TimerId::new(due, durable.unique(due, K::KIND));
        let stored = Stored { attempts: 1, ..NewTimer::new(id, K::KIND, b"").into() };
        Self::new(&stored, K::KIND, Arc::downgrade(&durable.0) as _, &durable.0.shared)
    }

    /// The `Durable` that called the handler: a handler saves and cancels timers with it.
    ///
    /// # Errors
    /// [`Error::Stopped`] if its last handle has been dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// # use serde::{Deserialize, Serialize};
    /// # use timingwheel_durable::{Answer::Done, HandlerResult, Kind, Run};
    /// # #[derive(Serialize, Deserialize)]
    /// # struct Remind;
    /// # impl Kind for Remind { const KIND: &'static str = "remind"; }
    /// async fn remind(_: Remind, run: Run) -> HandlerResult {
    ///     let next = run.due + jiff::SignedDuration::from_hours(24);
    ///     run.durable()?.at(next, &Remind).save().await?;
    ///     Ok(Done)
    /// }
    /// ```
    pub fn durable(&self) -> Result<Durable, Error> {
        let inner = self.durable.upgrade().and_then(|inner| inner.downcast().ok());
        inner.map(Durable).ok_or(Error::Stopped)
    }
}

/// The answer to a cancel. There will be no other, so a `match` can have all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cancelled {
    /// The timer is gone: no handler is called for it, and nobody can retry it.
    Removed,
    /// It has begun, by this attempt: its handler has been called, or is about to be, and may have ended by now. Nothing
    /// follows: no other attempt, and no other occurrence of its series. If the process dies or stops in that moment, the
    /// handler may never be called.
    ///
    /// A cancel also answers "running" if somebody has edited the timer's row in the database, so that it cannot be read.
    Running(u32),
    /// There is no such timer: it is done, was removed before, or never existed.
    NotFound,
}

/// The answer to a move. There will be no other, so a `match` can have all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Moved {
    /// It is due at another time now. Its id is the same.
    Moved(TimerId),
    /// It has begun, by this attempt: its handler has been called, or is about to be.
    Running(u32),
    /// There is no such timer.
    NotFound,
}

impl Durable {
    /// Cancels a timer, by its id or its key. This succeeds until the timer has begun, at its time. If there is none, a
    /// buried one of that id, or those of that key, are deleted.
    ///
    /// A cancel of a series ends the series.
    ///
    /// # Cancel safety
    /// If this is dropped before it is ready, the timer may be removed or not.
    ///
    /// # Errors
    /// [`Error::Store`], after which the timer is removed or not; [`Error::Stopped`]; [`Error::Lost`]; [`Error::Failed`].
    pub async fn cancel(&self, which: impl Into<Which>) -> Result<Cancelled, Error> {
        let cancelling = self.0.store.clone().cancel(which.into());
        Ok(match self.on_its_own(cancelling).await? {
            Removal::NotFound => Cancelled::NotFound,
            Removal::Removed(near) => {
                drop(self.0.runner.send(Command::Removed(near)));
                Cancelled::Removed
            }
            Removal::Running(id, attempt) => {
                drop(self.0.runner.send(Command::Cancelled(id)));
                Cancelled::Running(attempt)
            }
        })
    }

    /// Moves a timer to another time, earlier or later, by its id or its key. This succeeds until the timer has
    /// begun, at its time.
    ///
    /// Only this occurrence of a series moves. The next occurrence follows the rule, as if this one had not moved.
    ///
    /// # Cancel safety
    /// If this is dropped before it is ready, the timer may be moved or not.
    ///
    /// # Errors
    /// [`Error::Store`], after which the timer is moved or not; [`Error::Stopped`]; [`Error::Lost`]; [`Error::Failed`].
    pub async fn reschedule(&self, which: impl Into<Which>, due: Timestamp) -> Result<Moved, Error> {
        let moving = self.0.store.clone().reschedule(which.into(), due);
        let moved = |moved: &Move| if let Move::Moved { to, .. } = moved { Some(*to) } else { None };
        Ok(match self.tell_of(moving, moved).await? {
            Move::NotFound => Moved::NotFound,
            Move::Moved { from: _, to } => Moved::Moved(to.id()),
            Move::Running(_, attempt) => Moved::Running(attempt),
        })
    }

    /// The runner has to hear of every stored timer. So it gets the notice also if the caller is dropped.
    async fn tell_of<T: Send + 'static>(
        &self,
        call: Answered<T>,
        stored: impl FnOnce(&T) -> Option<Near> + Send + 'static,
    ) -> Result<T, Error> {
        let runner = self.0.runner.clone();
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
        self.on_its_own(telling).await
    }

    /// Begins a change, unless a stop has come. The check is last: a stop waits for all calls that came before it.
    pub(crate) fn calling(&self) -> Result<TaskTrackerToken, Error> {
        let calling = self.0.calls.token();
        self.check()?;
        Ok(calling)
    }

    /// Makes a call of the store in a task of its own: if the caller is dropped, a stop still waits for the call, as a store may go
    /// on with it and hold its file.
    pub(crate) async fn on_its_own<T: Send + 'static>(
        &self,
        call: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        let _calling = self.calling()?;
        match self.0.calls.spawn_on(call, &self.0.runtime).await {
            Ok(answer) => answer,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            // The runtime has ended.
            Err(_) => Err(Error::Stopped),
        }
    }

    /// Attempts a buried timer again, now. Its attempts are counted from 1 again.
    ///
    /// A run of a series is attempted again as a timer of its own: without the key and the rule, which are the series', and
    /// under another id with the same [scheduled instant](crate::Run::scheduled). So it never brings a cancelled series back.
    ///
    /// # Cancel safety
    /// If this is dropped before it is ready, it goes on by itself.
    ///
    /// # Errors
    /// [`Error::Store`], after which it is stored again or not; [`Error::Stopped`]; [`Error::Lost`]; [`Error::Failed`].
    pub async fn retry_buried(&self, id: TimerId) -> Result<Taken, Error> {
        let now = self.now();
        let number = self.unique(now, "");
        let retrying = self.0.store.clone().unbury(id, Some(now), number);
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
        self.on_its_own(self.0.store.clone().unbury(id, None, 0)).await
    }
}
