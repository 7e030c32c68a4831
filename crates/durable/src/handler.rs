//! Handlers: their payloads, their attempts, and their answers.

use std::error::Error as StdError;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
#[cfg(feature = "postgres")]
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use foldhash::HashMap;
use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use crate::backoff::Backoff;
use crate::id::TimerId;
#[cfg(feature = "postgres")]
use crate::{
    postgres::PostgresStore,
    shared::Shared,
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
    /// Tells when another instance has taken over the timer.
    pub lost: Lost,
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
    /// The instant at which the timer was first due. In a series it is the instant of this occurrence.
    #[must_use]
    pub fn scheduled(&self) -> Timestamp {
        self.id.first_due()
    }
}

/// Tells a handler that another instance has taken over its timer, and will attempt it again.
///
/// The answer of the handler then changes nothing.
#[derive(Clone)]
pub struct Lost(pub(crate) watch::Receiver<bool>);

impl Lost {
    /// Whether another instance has taken over the timer.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until another instance has taken over the timer.
    ///
    /// # Cancel safety
    /// It can be dropped and called again.
    pub async fn lost(&mut self) {
        // The owner has stopped, and nobody will tell any more.
        if self.0.wait_for(|lost| *lost).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl fmt::Debug for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Lost").field(&self.is_lost()).finish()
    }
}

pub(crate) type Started = Pin<Box<dyn Future<Output = HandlerResult> + Send>>;

/// Why a payload could not be read, and where in it.
pub(crate) type Unreadable = serde_path_to_error::Error<serde_json::Error>;

type Start = Box<dyn Fn(&[u8], Run) -> Result<Started, Unreadable> + Send + Sync>;

/// A handler, without its types.
pub(crate) struct Handler {
    /// Runs user code, which reads the payload and makes the future.
    pub(crate) start: Start,
    pub(crate) backoff: Backoff,
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
        Self { start, backoff: Backoff::default() }
    }
}

/// Reads a payload once more, to find the field that fails. This takes longer.
fn where_in<K: Kind>(payload: &[u8], error: serde_json::Error) -> Unreadable {
    let mut reader = serde_json::Deserializer::from_slice(payload);
    match serde_path_to_error::deserialize::<_, K>(&mut reader) {
        Err(error) => error,
        // It fits, but more bytes follow it.
        Ok(_) => Unreadable::new(serde_path_to_error::Track::new().path(), error),
    }
}

/// By their kinds.
pub(crate) type Handlers = HashMap<&'static str, Arc<Handler>>;
