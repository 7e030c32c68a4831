//! The runner: one task that owns the near timers. It loads, arms and begins them, calls their handlers, and stores the results.

// | file | what it has |
// |---|---|
// | this one | the task, and its loop |
// | `poll` | messages, answers of the store, and the wheel |
// | `load` | loading, arming, and when to do so next |
// | `begin`, `call_handler`, `settle` | the way of a timer that is due |
// | `places` | how many of a kind run at once, and those that wait for a place |
// | [`batches`](crate::batches) | what goes to the store many at a time, and in halves after a failure |
// | `live` | timers that have begun, those that wait for them, and those that somebody else holds |
// | `clocks` | the wall clock beside the monotonic one: a clock that was set |
// | `inspect` | looking for runs that their rule would not plan any more, and for timers without a handler |
// | `lease` | a store that instances share: the lease, its loss, what others have stored |
// | `stop` | the end |

mod begin;
mod call_handler;
mod clocks;
mod inspect;
mod lease;
mod live;
mod load;
mod places;
mod poll;
mod settle;
mod stop;

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::iter::Zip;
use std::pin::Pin;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};
use std::time::Duration;
use std::vec::IntoIter;

use foldhash::HashMap;
use futures::future::{BoxFuture, MaybeDone};
use jiff::Timestamp;
use timingwheel::time::{DelayQueue, delay_queue};
use timingwheel::{Sleep, TimingWheel};
use tokio::sync::mpsc;

use crate::batches::Batches;
use crate::error::Error;
use crate::handler::{Handlers, Hook};
use crate::id::TimerId;
use crate::outside::{CallBack, Far};
#[cfg(feature = "postgres")]
use crate::postgres::PostgresStore;
use crate::shared::{Shared, Watched};
use crate::store::{Answered, Begun, Ended, ErasedStore, Kinds, Loaded, Near, Owner, Paused, Settled};
use crate::window::Window;
use begin::{BATCH, Suspect};
use call_handler::let_others_run;
use clocks::Clocks;
use inspect::Inspections;
use lease::Share;
use live::{Live, PutOff};
use load::LoadAsked;
use places::Limited;
pub(crate) use poll::{Command, Outcome};
pub(crate) use stop::GRACE;
pub use stop::Stopped;
use stop::Stopping;

/// How many answers the runner takes in before it looks for other events. All of these handlers may run on one thread before
/// the runner renews its lease.
const ANSWERS_AT_A_TIME: usize = 256;

/// The runner reads the wall clock once for this many timers, which take about ten microseconds.
const ONE_CLOCK_READING: usize = 32;

/// The answer to come of a call, with what was asked.
type AnsweredWith<Q, T> = BoxFuture<'static, (Q, Result<T, Error>)>;

/// A call of the store, and then its answer.
type Asked<T> = MaybeDone<Answered<T>>;

/// The questions of one call, each with its answer.
type Answers<Q, A> = Zip<IntoIter<Q>, IntoIter<A>>;

/// The builder's settings.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) horizon: Duration,
    pub(crate) in_memory: usize,
    pub(crate) concurrency: usize,
    pub(crate) lease: Duration,
    pub(crate) hook: Option<Hook>,
    /// The store, if it is in PostgreSQL.
    #[cfg(feature = "postgres")]
    pub(crate) postgres: Option<PostgresStore>,
}

// Where a timer is:
//
// | it | in one of |
// |---|---|
// | waits for its time, or to begin | `keys` (on the wheel), `ready`, `alone`, [`Limited`]'s `waiting` |
// | is about to begin: [`Live::Beginning`] | `again`, `put_off`, `beginning`, `begun` |
// | has begun: [`Live::Running`] | its task |
// | has ended: [`Live::Settling`] | `ends`, `put_off`, `settling`, `settled` |
//
// A live timer may also be where others wait, as after a move. When it comes to begin there, that notice goes to `behind_live`.
pub(crate) struct Runner {
    /// For the handlers.
    durable: Weak<dyn Any + Send + Sync>,
    shared: Arc<Shared>,
    store: Arc<dyn ErasedStore>,
    owner: Owner,
    handlers: Arc<Handlers>,
    /// The kinds that have a handler, and those of them that are not paused.
    kinds: Kinds,
    wanted: Kinds,
    settings: Settings,
    /// Times the limits of attempts.
    wheel: TimingWheel,
    /// Takes far timers.
    outside: Far,
    commands: mpsc::UnboundedReceiver<Command>,
    /// Handlers send their results here.
    sender: mpsc::UnboundedSender<Command>,
    /// Set by a stop. A call that is on its way then does not call its handler.
    is_stopping: Arc<AtomicBool>,
    /// Kept for its room: many messages come at a time.
    buffer: Vec<Command>,
    window: Window,
    /// Near timers, on the wheel until they are to begin.
    armed: DelayQueue<Near>,
    keys: HashMap<Near, delay_queue::Key>,
    /// Timers to begin now, the earliest first.
    ready: BTreeSet<Near>,
    /// Live timers that a failed call may have begun.
    again: Batches<Near>,
    put_off: PutOff,
    /// Timers that have begun, or are about to.
    live: HashMap<TimerId, Live>,
    /// Notices of timers that are live already, each once. When such a timer has ended, it may have to begin again, for example
    /// because it was moved meanwhile. One notice comes with each save under the key of a timer that runs.
    behind_live: HashMap<TimerId, BTreeSet<Near>>,
    /// Kinds of which only so many run at once.
    limited: Vec<Limited>,
    /// Since when timers have waited, for a place or for somebody who held them, that were forgotten as the shards changed.
    waited: HashMap<TimerId, Timestamp>,
    /// Ends that are to be settled.
    ends: Batches<Ended>,
    inspections: Inspections,
    /// A timer may be stored before the window's end and not be armed.
    loads_anew: bool,
    /// Suspects, each of which is begun alone.
    alone: BTreeMap<Near, Suspect>,
    /// The last suspect that began, and until when it runs alone.
    suspect: Option<(TimerId, tokio::time::Instant)>,
    loading: Option<AnsweredWith<LoadAsked, Loaded>>,
    beginning: Option<(Vec<Near>, Asked<Vec<Begun>>)>,
    /// The answers to the begin before, which this task takes in while the store works on `beginning`.
    begun: Answers<Near, Begun>,
    settling: Option<(Vec<Ended>, Asked<Vec<Settled>>)>,
    /// The answers to the settle before, as with `begun`.
    settled: Answers<Ended, Settled>,
    clocks: Clocks,
    share: Share,
    /// Wakes this task for the next load, and for a comparison of the clocks.
    alarm: Sleep,
    /// The same on tokio's timers, while the wheel is full or after it has ended.
    nap: Option<Pin<Box<tokio::time::Sleep>>>,
    /// After a failure of the store: when it is asked again, and how many failures there were in a row.
    pause: Option<(tokio::time::Instant, u32)>,
    /// How many calls of the store have succeeded.
    succeeded: u64,
    /// Another owner has taken over, for good.
    is_lost: bool,
    stopping: Option<Stopping>,
    has_wheel_ended: bool,
}

impl Runner {
    #[allow(clippy::too_many_arguments, reason = "the parts of one thing, put together in one place")]
    pub(crate) fn new(
        wheel: &TimingWheel,
        durable: Weak<dyn Any + Send + Sync>,
        shared: Arc<Shared>,
        store: Arc<dyn ErasedStore>,
        owner: Owner,
        handlers: Handlers,
        settings: Settings,
        paused: Paused,
        outside: Far,
        (sender, commands): (mpsc::UnboundedSender<Command>, mpsc::UnboundedReceiver<Command>),
    ) -> Self {
        let limited = places::limited(&handlers);
        let kinds = shared.kinds();
        let wanted = Arc::new(kinds.difference(&paused).cloned().collect());
        let clocks = Clocks::new(Arc::clone(&shared));
        let share = Share::new(store.is_shared());
        outside.begins(CallBack { runner: sender.clone(), ahead: settings.horizon / 2 });
        Self {
            durable,
            shared,
            store,
            owner,
            handlers: Arc::new(handlers),
            kinds,
            wanted,
            settings,
            wheel: wheel.clone(),
            outside,
            commands,
            sender,
            is_stopping: Arc::default(),
            buffer: Vec::new(),
            window: Window::new(),
            armed: wheel.delay_queue(),
            keys: HashMap::default(),
            ready: BTreeSet::new(),
            again: Batches::of_at_most(BATCH),
            put_off: PutOff::default(),
            live: HashMap::default(),
            behind_live: HashMap::default(),
            limited,
            waited: HashMap::default(),
            ends: Batches::of_at_most(BATCH),
            inspections: Inspections::new(),
            loads_anew: false,
            alone: BTreeMap::new(),
            suspect: None,
            loading: None,
            beginning: None,
            begun: Vec::new().into_iter().zip(Vec::new()),
            settling: None,
            settled: Vec::new().into_iter().zip(Vec::new()),
            clocks,
            share,
            alarm: wheel.sleep(Duration::ZERO),
            nap: None,
            pause: None,
            succeeded: 0,
            is_lost: false,
            stopping: None,
            has_wheel_ended: false,
        }
    }

    /// Runs until it is stopped.
    pub(crate) async fn run(mut self) {
        let _watched = Watched(Arc::clone(&self.shared));
        loop {
            self.step();
            self.tell();
            if self.is_over() {
                break;
            }
            poll_fn(|cx| self.poll(cx)).await;
            if self.begun.len() + self.settled.len() > 0 {
                // The rest takes this thread milliseconds more.
                let_others_run().await;
            }
        }
        self.leave().await;
    }

    /// Begins everything that can begin now.
    fn step(&mut self) {
        self.check_the_clock_now_and_then();
        self.renew();
        self.take_up();
        if !self.is_paused() {
            self.settle();
            self.begin();
            self.load();
            self.inspect();
        }
        self.outside.hand_over();
        self.sleep_until_next();
    }

    /// These kinds are paused. What is armed of a paused kind is not begun, and is loaded again once the kind is resumed.
    pub(crate) fn set_paused(&mut self, paused: &Paused) {
        let wanted: BTreeSet<String> = self.kinds.difference(paused).cloned().collect();
        if *self.wanted != wanted {
            self.loads_anew |= !wanted.is_subset(&self.wanted);
            self.wanted = Arc::new(wanted);
            self.forget_paused_that_wait();
        }
    }

    /// Whether anything may still be begun here.
    fn may_begin(&self) -> bool {
        self.stopping.is_none() && !self.is_lost && !self.has_wheel_ended
    }

    /// The store has failed: it is asked again after a while.
    fn failed(&mut self, error: &Error) {
        let failures = self.pause.map_or(0, |(_, failures)| failures);
        let wait =
            Duration::from_millis(100).saturating_mul(1 << failures.min(6)).min(Duration::from_secs(5));
        self.pause = Some((tokio::time::Instant::now() + wait, failures + 1));
        self.shared.failed(error);
    }

    /// A call of the store has succeeded.
    fn has_succeeded(&mut self) {
        (self.pause, self.succeeded) = (None, self.succeeded + 1);
    }

    fn is_paused(&self) -> bool {
        self.pause.is_some_and(|(until, _)| tokio::time::Instant::now() < until)
    }

    /// When the first timer is due that has not begun, as far as is known here.
    fn first_due(&self) -> Option<i64> {
        let beginning = self.beginning.iter().filter_map(|(nears, _)| nears.first());
        let here = self.ready.first().into_iter().chain(self.alone.keys().next()).chain(self.again.iter());
        let stored = self.window.first_beyond().filter(|due| *due > i64::MIN);
        here.chain(beginning).map(|near| near.due_ms).chain(stored).chain(self.put_off.first_due()).min()
    }

    /// Publishes the present state.
    fn tell(&self) {
        self.shared.set_first_due(self.first_due());
        let mut stats = self.shared.stats();
        stats.armed = self.near();
        stats.begun = self.live.len();
        stats.damaged = self.store.damaged();
        self.tell_who_waits(&mut stats);
    }
}
