//! The handle.

mod changes;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use timingwheel::TimingWheel;
use timingwheel_calendar::Plan;
use tokio::runtime::Handle;
use tokio::sync::{RwLock, mpsc, oneshot};

use crate::builder::Builder;
use crate::error::Error;
use crate::handler::Kind;
use crate::health::Stats;
use crate::runner::{Command, GRACE, Stopped};
use crate::save::{Save, Saving, SavingSeries};
use crate::shared::Shared;
use crate::store::{Counts, ErasedStore, Page, Store, Stored, Which};
pub(crate) use changes::Calling;
pub use changes::{Cancelled, Moved};

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
    pub(crate) unique: AtomicU64,
    pub(crate) runtime: Handle,
    /// Calls that go on without their callers each hold it to be read. A stop waits for it.
    pub(crate) calls: Arc<RwLock<()>>,
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
        let delay = SignedDuration::try_from(delay).unwrap_or(SignedDuration::MAX);
        self.at(self.now().saturating_add(delay).unwrap_or(Timestamp::MAX), payload)
    }

    /// A series: timers that are due by a rule of `timingwheel-calendar`, one after the other, under one name.
    ///
    /// A second save of the same series changes nothing, so a program can save its series at each start. A save with
    /// another policy or payload updates the series, and a pending run keeps its time. A save with another rule plans
    /// the series anew. The [answer](SavingSeries::save) tells which of these was done.
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
    ) -> SavingSeries<'_> {
        SavingSeries::new(self, name.into(), plan.into(), payload)
    }

    /// The timers of a page. They are either the stored and begun timers, in the order of their due times, or the
    /// [buried](crate::store::Buried) timers.
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
        self.0.shared.stats().clone()
    }

    /// The time by the wall clock.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.0.shared.now()
    }

    /// Begins no more timers, waits up to `limit` for the handlers that run, and stores their results. After the limit
    /// it drops the handlers that still run, and gives their timers back to the store. When `stop` returns, no handler
    /// runs any more, except handlers that [block their threads](Stopped::left_running).
    ///
    /// If handlers block their threads or the store is slow, `stop` returns up to four seconds after the limit. So let
    /// a supervisor wait longer than that before it kills the process.
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
        let _ = tokio::time::timeout(GRACE, self.0.calls.write()).await;
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
        let count = self.0.unique.fetch_add(1, Ordering::Relaxed);
        self.0.store.number(self.0.shared.owner(), count, due, kind)
    }
}

impl fmt::Debug for Durable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { wheel, shared, .. } = &*self.0;
        f.debug_struct("Durable")
            .field("wheel", wheel)
            .field("epoch", &shared.owner().epoch)
            .finish_non_exhaustive()
    }
}
