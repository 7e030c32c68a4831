//! The builder: handlers, settings, and the start.

#[cfg(feature = "postgres")]
use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use timingwheel::TimingWheel;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use crate::backoff::Backoff;
use crate::clock::{self, Clock};
use crate::durable::{Durable, Inner};
use crate::error::Error;
use crate::events::event;
use crate::handler::{Handler, HandlerResult, Handlers, Handling, Kind, Run};
use crate::outside::{Far, Outside};
use crate::runner::{Runner, Settings};
use crate::save::Saver;
use crate::shared::Shared;
use crate::store::{ErasedStore, Kinds, Paused, Store};

/// How long an instance may be silent in a store that several processes share.
const LEASE: Duration = Duration::from_secs(90);

/// The shortest horizon, and the shortest lease.
const SHORTEST: Duration = Duration::from_millis(1);

/// The longest lease. Times that are reckoned from it fit into all clocks.
const LONGEST_LEASE: Duration = Duration::from_secs(365 * 86_400);

/// Sets something of a handler.
type OfKind = Box<dyn FnOnce(&mut Handler) + Send + Sync>;

/// The handlers and settings of a [`Durable`], from [`Durable::builder`].
#[must_use = "nothing begins before `start`"]
pub struct Builder {
    wheel: TimingWheel,
    store: Arc<dyn ErasedStore>,
    handlers: Handlers,
    of_kinds: Vec<(&'static str, OfKind)>,
    twice: Option<&'static str>,
    clock: Option<Arc<dyn Clock>>,
    settings: Settings,
    outside: Far,
}

impl Builder {
    pub(crate) fn new<S: Store>(wheel: &TimingWheel, store: S) -> Self {
        let settings = Settings {
            horizon: Duration::from_secs(60),
            in_memory: 10_000,
            concurrency: 1_024,
            lease: LEASE,
            hook: None,
            #[cfg(feature = "postgres")]
            postgres: (&store as &dyn Any).downcast_ref().cloned(),
        };
        Self {
            wheel: wheel.clone(),
            store: Arc::new(store),
            handlers: Handlers::default(),
            of_kinds: Vec::new(),
            twice: None,
            clock: None,
            settings,
            outside: Far::new(None, Duration::ZERO),
        }
    }

    /// Calls `handler` for each timer of its kind that is due. Several calls may run at once, each in a task of its
    /// own.
    ///
    /// Timers of kinds without a handler stay in the store. If a program has handlers and saves such a timer, an event
    /// warns of it, and [`Stats::unhandled`](crate::Stats::unhandled) names one that is overdue. In a store that
    /// several instances share, instances may have different handlers: each timer is begun by one that has its handler.
    /// An instance without handlers gets no timers. A store in memory or in a file has one instance at a time.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), timingwheel_durable::Error> {
    /// use serde::{Deserialize, Serialize};
    /// use timingwheel::TimingWheel;
    /// use timingwheel_durable::{Answer::Done, Durable, Kind, MemoryStore, Run};
    ///
    /// #[derive(Serialize, Deserialize)]
    /// struct Remind {
    ///     person: String,
    /// }
    ///
    /// impl Kind for Remind {
    ///     const KIND: &'static str = "remind";
    /// }
    ///
    /// let durable = Durable::builder(&TimingWheel::new(), MemoryStore::new())
    ///     .on(|Remind { person }, run: Run| async move {
    ///         println!("{person}, attempt {}", run.attempt);
    ///         Ok(Done)
    ///     })
    ///     .start()
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn on<K, H, F>(mut self, handler: H) -> Self
    where
        K: Kind,
        H: Fn(K, Run) -> F + Send + Sync + 'static,
        F: Future<Output = HandlerResult> + Send + 'static,
    {
        if self.handlers.insert(K::KIND, Arc::new(Handler::new(handler))).is_some() {
            self.twice = Some(K::KIND);
        }
        self
    }

    /// Sets when failed attempts of a kind are made again. The default is [that of `Backoff`](Backoff).
    pub fn retry<K: Kind>(self, backoff: Backoff) -> Self {
        self.of_kind::<K>(|handler| handler.backoff = backoff)
    }

    fn of_kind<K: Kind>(mut self, set: impl FnOnce(&mut Handler) + Send + Sync + 'static) -> Self {
        self.of_kinds.push((K::KIND, Box::new(set)));
        self
    }

    /// At most so many handlers of a kind run at a time in this instance.
    ///
    /// Further timers wait for a place, the earliest first, and keep no other kind from its places. [`KindStats::waiting`] counts
    /// them. A run of a series that waits is not missed, unless the program starts again or its shard goes to another instance. While a
    /// timer waits, it is stored, so it can be cancelled and moved.
    ///
    /// The kind of a timer is known when it has begun. So a timer that finds no place is begun and given back once, which costs
    /// two writes. A cancel in that moment answers [`Running`](crate::Cancelled::Running), and the timer is removed.
    ///
    /// [`KindStats::waiting`]: crate::KindStats::waiting
    pub fn concurrency_of<K: Kind>(self, handlers: usize) -> Self {
        self.of_kind::<K>(move |handler| handler.places.here = Some(handlers))
    }

    /// At most so many handlers of a kind run at a time in all instances that share the store, if all of them set this number.
    ///
    /// Each instance takes a part of the places, in the proportion of its [shards](crate::Stats::shards), rounded down, but at
    /// least one. So there may be more handlers in three cases: more instances than places have shards; shards have moved, until
    /// the handlers of their former owner end; an instance has lost its lease, until its handlers have heard of it. And there may
    /// be fewer, because of the rounding. Where one instance has the store, this is [`concurrency_of`](Self::concurrency_of).
    pub fn concurrency_in_all<K: Kind>(self, handlers: usize) -> Self {
        self.of_kind::<K>(move |handler| handler.places.in_all = Some(handlers))
    }

    /// An attempt of a kind takes so long at the most. Then its handler is dropped, and the attempt has failed.
    ///
    /// With the feature `deadline` the handler runs under a deadline of `timingwheel-deadline`: calls that it makes in its own
    /// task carry the deadline, and [`Deadline::current`] shows how much time is left.
    ///
    /// [`Deadline::current`]: https://docs.rs/timingwheel-deadline/latest/timingwheel_deadline/struct.Deadline.html#method.current
    pub fn time_limit<K: Kind>(self, limit: Duration) -> Self {
        self.of_kind::<K>(move |handler| handler.time_limit = Some(limit))
    }

    /// Calls `hook` round each attempt of all kinds. It gets the call of the handler as a future, which it awaits. So it sees the
    /// kind, the key, the attempt, how late it is, how long it takes and how it ends: also that the handler panicked or that its
    /// payload cannot be read, as an error. It may set what is current in the handler. Its answer counts. A further hook goes
    /// round the earlier ones.
    ///
    /// # Examples
    ///
    /// ```
    /// # use timingwheel::TimingWheel;
    /// # use timingwheel_durable::{Durable, Handling, MemoryStore, Run};
    /// # async fn example() -> Result<(), timingwheel_durable::Error> {
    /// let durable = Durable::builder(&TimingWheel::new(), MemoryStore::new())
    ///     .around(|run: Run, handling: Handling| async move {
    ///         let begun = std::time::Instant::now();
    ///         let result = handling.await;
    ///         println!("{} {:?}, {:?} late, {:?}: {result:?}", run.kind, run.key, run.late, begun.elapsed());
    ///         result
    ///     })
    ///     .start()
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn around<H, F>(mut self, hook: H) -> Self
    where
        H: Fn(Run, Handling) -> F + Send + Sync + 'static,
        F: Future<Output = HandlerResult> + Send + 'static,
    {
        let within = self.settings.hook.take();
        self.settings.hook = Some(Arc::new(move |run: Run, handling| {
            let (its, within) = (run.clone(), within.clone());
            let handling = match within {
                // Called within the hook, as the handler is.
                Some(within) => Box::pin(async move { within(its, handling).await }),
                None => handling,
            };
            Box::pin(hook(run, handling))
        }));
        self
    }

    /// How far ahead timers are loaded into memory. Later ones wait in the store alone. The default is a minute.
    pub fn horizon(mut self, horizon: Duration) -> Self {
        self.settings.horizon = horizon;
        self
    }

    /// About how many pending timers are kept in memory. For a moment there may be up to twice as many. The default is
    /// 10,000.
    ///
    /// This number limits the rate too: in the time of one load and one begin, about this many timers can begin. A
    /// limit of 7 gives about a hundred timers a second on a disk. If the limit is too low, timers are late, and
    /// [`Symptom::Behind`](crate::Symptom::Behind) reports it.
    pub fn in_memory(mut self, timers: usize) -> Self {
        self.settings.in_memory = timers;
        self
    }

    /// At most so many handlers run at a time. The default is 1,024. While so many run, further timers are late, and
    /// [`Symptom::Behind`](crate::Symptom::Behind) reports it.
    pub fn concurrency(mut self, handlers: usize) -> Self {
        self.settings.concurrency = handlers;
        self
    }

    /// In a store that several instances share: if an instance is silent for this long, the others take over its timers.
    ///
    /// An instance renews its lease after each third of the lease. If no renewal has succeeded, the instance begins no
    /// timers in the last fifth. The lease must be 1 ms to 365 days. The default is 90 seconds. For a database under
    /// load, choose seconds rather than milliseconds. With a lease of more than six minutes, timers that another
    /// instance saves may be late: if a timer is saved more than two minutes ahead, no hint reports it, and the instance
    /// of its shard finds it only at the next renewal.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.settings.lease = lease;
        self
    }

    /// Hands far timers to a [scheduler outside](Outside), which calls back when they are near. So the runner need not
    /// ask the store when the next far timer comes near.
    ///
    /// A scan makes up for lost call backs: the runner asks the store for near timers once in each `scan`. So a lost
    /// call back delays a timer by `scan` at the most. The scan also finds timers that the scheduler never got: older
    /// timers, and far timers that another instance saved or left behind. If another instance saves a timer that is due
    /// soon, a hint reports the timer, as without a scheduler.
    pub fn outside(mut self, outside: impl Outside, scan: Duration) -> Self {
        self.outside = Far::new(Some(Arc::new(outside)), scan);
        self
    }

    /// The clock by which timers are due, instead of the system's. While tokio's clock is paused, the usual one
    /// starts at the present time and follows tokio's.
    ///
    /// In a store that several instances share, timers are due by the store's clock, whatever this one shows.
    /// [`Stats::clock_offset`](crate::Stats::clock_offset) tells how far the two are apart.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Some(Arc::new(clock));
        self
    }

    /// Takes over the store, and begins to run timers. Timers that fell due while no program ran are due now.
    ///
    /// # Cancel safety
    /// If this is dropped before it is ready, the store may belong to an instance that does nothing. If several instances share
    /// the store, the others take over the timers of this one after the lease.
    ///
    /// # Errors
    /// [`Error::Setting`] for two handlers of one kind, a setting of a kind without a handler, and a setting that is not
    /// allowed;
    /// [`Error::Store`] if the store fails; [`Error::Stopped`] if the wheel has ended, before the store is asked.
    ///
    /// # Panics
    /// If it is not called within a tokio runtime.
    pub async fn start(self) -> Result<Durable, Error> {
        let Self { wheel, store, mut handlers, of_kinds, twice, clock, settings, outside } = self;
        let refuse = |told: String| Err(Error::Setting(told));
        if let Some(kind) = twice {
            return refuse(format!("a kind must have one handler, got two for {kind:?}"));
        }
        for (kind, set) in of_kinds {
            let Some(handler) = handlers.get_mut(kind).and_then(Arc::get_mut) else {
                return refuse(format!(
                    "a setting of a kind must be for a kind with a handler, got {kind:?}"
                ));
            };
            set(handler);
        }
        handlers.values().try_for_each(|handler| handler.check()).map_err(Error::Setting)?;
        let Settings { horizon, in_memory, concurrency, lease, .. } = settings;
        let leases = SHORTEST..=LONGEST_LEASE;
        let checks = [
            (in_memory > 0, "the number of timers in memory must be at least 1, got 0".to_owned()),
            (concurrency > 0, "the concurrency must be at least 1, got 0".to_owned()),
            (horizon >= SHORTEST, format!("the horizon must be at least 1 ms, got {horizon:?}")),
            (leases.contains(&lease), format!("the lease must be 1 ms to 365 days, got {lease:?}")),
        ];
        if let Some((_, told)) = checks.into_iter().find(|(is_allowed, _)| !is_allowed) {
            return refuse(told);
        }
        if wheel.is_ended() {
            return Err(Error::Stopped);
        }
        let clock = clock.unwrap_or_else(clock::usual);
        let before = Instant::now();
        store.set_clock(Arc::clone(&clock));
        let kinds: Kinds = Arc::new(handlers.keys().map(ToString::to_string).collect());
        let owner = store.clone().join(lease, Arc::clone(&kinds)).await?;
        let paused = if kinds.is_empty() { Paused::new() } else { store.clone().pause(None).await? };
        let shared = Arc::new(Shared::new(clock, owner, kinds));
        // From the first call on, what is due goes by the store's clock.
        if let Some(now) = store.clock(owner) {
            shared.compare((before, Instant::now()), now);
        }
        event!(debug, wheel = wheel.name(), epoch = owner.epoch, "durable timers begin");
        let (sender, commands) = mpsc::unbounded_channel();
        let (saves, to_save) = mpsc::unbounded_channel();
        tokio::spawn(Saver { shared: shared.clone(), runner: sender.clone() }.run(to_save));
        let inner = Inner {
            wheel,
            shared: shared.clone(),
            store: store.clone(),
            saves,
            runner: sender.clone(),
            runtime: Handle::current(),
            calls: TaskTracker::new(),
            pausing: tokio::sync::Mutex::default(),
        };
        let durable = Durable(Arc::new(inner));
        let task = Runner::new(
            &durable.0.wheel,
            Arc::downgrade(&durable.0) as _,
            shared,
            store,
            owner,
            handlers,
            settings,
            paused,
            outside,
            (sender, commands),
        );
        tokio::spawn(task.run());
        Ok(durable)
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds: Vec<_> = self.handlers.keys().collect();
        f.debug_struct("Builder").field("kinds", &kinds).finish_non_exhaustive()
    }
}
