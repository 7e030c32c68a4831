//! Handlers: their payloads, their attempts, and their answers.

use std::any::Any;
use std::error::Error as StdError;
use std::fmt;
use std::pin::Pin;
#[cfg(feature = "postgres")]
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use foldhash::HashMap;
use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use crate::backoff::Backoff;
use crate::id::TimerId;
use crate::shared::Shared;
use crate::store::Stored;
#[cfg(feature = "postgres")]
use crate::{
    postgres::PostgresStore,
    store::{Near, Series},
};

/// The payload of a timer: a serde type with a name that its stored timers carry.
///
/// It is stored as JSON, so that people and other languages can read it. Keep the name for as long as timers with it are
/// stored, and let the type read what its older versions wrote: serde's `default` and `alias` do that.
///
/// # Examples
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use timingwheel_durable::Kind;
///
/// #[derive(Serialize, Deserialize)]
/// struct CancelOrder {
///     order: u64,
/// }
///
/// impl Kind for CancelOrder {
///     const KIND: &'static str = "cancel-order";
/// }
/// ```
pub trait Kind: Serialize + DeserializeOwned + Send + 'static {
    /// The name by which a stored timer finds its handler.
    const KIND: &'static str;
}

impl Stored {
    /// The payload.
    ///
    /// # Errors
    /// If it cannot be read as this type, whatever its kind is: the field, and why.
    pub fn read<K: Kind>(&self) -> Result<K, HandlerError> {
        serde_json::from_slice(&self.payload).map_err(|error| where_in::<K>(&self.payload, error).into())
    }
}

/// A payload as it is stored. It is never printed.
pub(crate) struct Payload {
    pub(crate) kind: &'static str,
    pub(crate) json: Result<Vec<u8>, serde_json::Error>,
}

impl Payload {
    pub(crate) fn of<K: Kind>(payload: &K) -> Self {
        Self { kind: K::KIND, json: serde_json::to_vec(payload).and_then(refuse_lost_numbers::<K>) }
    }
}

/// A number that is NaN or infinite is written as `null`, which its type cannot read.
fn refuse_lost_numbers<K: Kind>(json: Vec<u8>) -> Result<Vec<u8>, serde_json::Error> {
    // Reading takes longer than this, and most payloads have no `null`.
    if json.windows(4).any(|part| part == b"null") {
        serde_json::from_slice::<K>(&json).map_err(|error| {
            let why = "it could not be read again, as a number that is NaN or infinite is written as null";
            serde::ser::Error::custom(format!("{why}: {error}"))
        })?;
    }
    Ok(json)
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.kind)
    }
}

/// A handler's answer: the timer is done, comes again, or is buried.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Answer {
    /// The timer has done its work: it is deleted, or its series goes on.
    Done,
    /// It is attempted again after this time. The attempt counts.
    Retry(Duration),
    /// It is attempted again at this time. The present attempt does not count.
    Snooze(Timestamp),
    /// It is buried: kept with this reason, for people to look at.
    Bury(String),
}

/// The error of a handler. `?` turns any error into it, and `.into()` any text. It is stored as a text with its causes.
///
/// The timer is attempted again as its [`Backoff`] says, and buried after the last attempt.
pub type HandlerError = Box<dyn StdError + Send + Sync>;

/// The result of a handler.
pub type HandlerResult = Result<Answer, HandlerError>;

/// The attempt that a handler is called for.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Run {
    /// The id of the timer. All attempts have the same id, so use it as the key that makes effects happen only once.
    pub id: TimerId,
    /// The [kind](Kind::KIND) of its payload.
    pub kind: &'static str,
    /// The timer's key: your name for it.
    pub key: Option<String>,
    /// Which attempt this is. The first is 1.
    pub attempt: u32,
    /// When this attempt was due.
    pub due: Timestamp,
    /// How late this attempt began.
    pub late: Duration,
    /// The number under which this instance began the attempt. A store compares it together with `id` and `attempt`.
    pub epoch: u64,
    pub(crate) signal: Signal,
    /// The `Durable` that called the handler. A run does not keep it from ending.
    pub(crate) durable: Weak<dyn Any + Send + Sync>,
    #[cfg(feature = "postgres")]
    pub(crate) within: Within,
}

/// The data with which a handler ends its attempt in a transaction of its own.
#[cfg(feature = "postgres")]
#[derive(Clone, Debug)]
pub(crate) struct Within {
    pub(crate) timer: Near,
    pub(crate) series: Option<Box<Series>>,
    /// The version of the row when it began.
    pub(crate) version: u32,
    /// Set once the attempt has ended in such a transaction.
    pub(crate) has_finished: Arc<AtomicBool>,
    /// Its clock is the one by which the timer is due.
    pub(crate) shared: Arc<Shared>,
    /// The store, if it is in PostgreSQL.
    pub(crate) postgres: Option<PostgresStore>,
}

impl Run {
    /// An attempt of a timer as it has begun, on time, of the present owner.
    pub(crate) fn new(
        stored: &Stored,
        kind: &'static str,
        durable: Weak<dyn Any + Send + Sync>,
        shared: &Arc<Shared>,
    ) -> Self {
        Self {
            id: stored.timer.id(),
            kind,
            key: stored.key.clone(),
            attempt: stored.attempts,
            due: stored.timer.due(),
            late: Duration::ZERO,
            epoch: shared.owner().epoch,
            signal: Signal::default(),
            durable,
            #[cfg(feature = "postgres")]
            within: Within {
                timer: stored.timer,
                series: stored.series.clone().map(Box::new),
                version: stored.version,
                has_finished: Arc::default(),
                shared: Arc::clone(shared),
                postgres: None,
            },
        }
    }

    /// The instant at which the timer was first due. In a series it is the instant of this occurrence.
    #[must_use]
    pub fn scheduled(&self) -> Timestamp {
        self.id.first_due()
    }

    /// Is cancelled when the handler should end early. Pass it on to what the handler calls. [`interrupted`](Self::interrupted)
    /// tells why. A handler that does not listen goes on as before.
    ///
    /// # Examples
    ///
    /// ```
    /// # use timingwheel_durable::{Answer::{Done, Snooze}, HandlerError, HandlerResult, Interrupt, Run};
    /// # async fn crawl() -> Result<(), HandlerError> { Ok(()) }
    /// async fn handler(run: Run) -> HandlerResult {
    ///     match run.token().run_until_cancelled(crawl()).await {
    ///         Some(crawled) => crawled.map(|()| Done),
    ///         // The next start takes it up, and this attempt does not count.
    ///         None if run.interrupted() == Some(Interrupt::Stop) => Ok(Snooze(run.due)),
    ///         // Nothing follows.
    ///         None => Ok(Done),
    ///     }
    /// }
    /// ```
    #[must_use]
    pub fn token(&self) -> &CancellationToken {
        &self.signal.token
    }

    /// Interrupts the handler, as its `Durable` does: for [tests](Self::in_test).
    pub fn interrupt(&self, why: Interrupt) {
        self.signal.interrupt(why);
    }

    /// Why the handler should end early: the gravest cause so far. `None` if it need not.
    #[must_use]
    pub fn interrupted(&self) -> Option<Interrupt> {
        *self.signal.why()
    }
}

/// Why a handler should end early, the gravest cause last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Interrupt {
    /// The `Durable` stops. At the limit of the [stop](crate::Durable::stop) the handler is dropped.
    Stop,
    /// The timer was cancelled: nothing follows this attempt, however it ends. A save that
    /// [replaces](crate::Saving::replace) the timer does not interrupt it.
    Cancelled,
    /// Another instance has taken over the timer, and will attempt it again. The answer of the handler changes nothing.
    Lost,
}

/// Interrupts a handler. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Signal {
    token: CancellationToken,
    why: Arc<Mutex<Option<Interrupt>>>,
}

impl Signal {
    fn why(&self) -> std::sync::MutexGuard<'_, Option<Interrupt>> {
        self.why.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn interrupt(&self, why: Interrupt) {
        {
            let mut gravest = self.why();
            *gravest = (*gravest).max(Some(why));
        }
        self.token.cancel();
    }
}

/// The call of a handler, which a [hook](crate::Builder::around) awaits.
pub type Handling = Pin<Box<dyn Future<Output = HandlerResult> + Send>>;

/// A hook round each attempt.
pub(crate) type Hook = Arc<dyn Fn(Run, Handling) -> Handling + Send + Sync>;

/// The error of a handler that has panicked.
#[derive(Debug)]
pub(crate) struct Panicked(pub(crate) String);

impl fmt::Display for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "panicked: {}", self.0)
    }
}

impl StdError for Panicked {}

/// If a payload does not fit its type, the error of the attempt begins like this.
const UNREADABLE: &str = "its payload cannot be read at ";
/// In that error, this stands between the field and what is wrong with it.
const UNREADABLE_WHY: &str = ", because ";

/// The part of an error that is logged: it may quote the payload, and payloads are not logged.
pub(crate) fn loggable(error: &str) -> &str {
    let is_unreadable = error.starts_with(UNREADABLE);
    error.split(UNREADABLE_WHY).next().filter(|_| is_unreadable).unwrap_or(error)
}

type Start = Box<dyn Fn(&[u8], Run) -> Result<Handling, HandlerError> + Send + Sync>;

/// A handler, without its types.
pub(crate) struct Handler {
    pub(crate) kind: &'static str,
    /// Runs user code, which reads the payload and makes the future.
    pub(crate) start: Start,
    pub(crate) backoff: Backoff,
    pub(crate) places: Places,
    pub(crate) time_limit: Option<Duration>,
}

/// How many handlers of a kind may run at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Places {
    pub(crate) here: Option<usize>,
    pub(crate) in_all: Option<usize>,
}

impl Handler {
    pub(crate) fn new<K, H, F>(handler: H) -> Self
    where
        K: Kind,
        H: Fn(K, Run) -> F + Send + Sync + 'static,
        F: Future<Output = HandlerResult> + Send + 'static,
    {
        let start: Start = Box::new(move |payload, run| {
            let payload = serde_json::from_slice(payload).map_err(|error| where_in::<K>(payload, error))?;
            Ok(Box::pin(handler(payload, run)))
        });
        Self {
            kind: K::KIND,
            start,
            backoff: Backoff::default(),
            places: Places::default(),
            time_limit: None,
        }
    }

    /// # Errors
    /// In words, for a setting that is not allowed.
    pub(crate) fn check(&self) -> Result<(), String> {
        let kind = self.kind;
        if kind.is_empty() {
            return Err("a kind must have a name, got an empty one".to_owned());
        }
        if self.places.here == Some(0) || self.places.in_all == Some(0) {
            return Err(format!("the concurrency of a kind must be at least 1, got 0 for {kind:?}"));
        }
        if self.time_limit == Some(Duration::ZERO) {
            return Err(format!("the time limit of a kind must be more than 0, got 0 for {kind:?}"));
        }
        self.backoff.check()
    }
}

/// Reads a payload once more, to find the field that fails. This takes longer.
fn where_in<K: Kind>(payload: &[u8], error: serde_json::Error) -> String {
    let mut reader = serde_json::Deserializer::from_slice(payload);
    let (path, error) = match serde_path_to_error::deserialize::<_, K>(&mut reader) {
        Err(error) => (error.path().to_string(), error.into_inner()),
        // It fits, but more bytes follow it.
        Ok(_) => (".".to_owned(), error),
    };
    let field = if path == "." { "its beginning".to_owned() } else { format!("`{path}`") };
    format!("{UNREADABLE}{field}{UNREADABLE_WHY}{error}")
}

/// By their kinds.
pub(crate) type Handlers = HashMap<&'static str, Arc<Handler>>;
