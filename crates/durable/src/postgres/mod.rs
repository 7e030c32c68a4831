//! The store in PostgreSQL, which several instances share.

// The decisions of each call are in SQL, in `sql/functions.sql`. The files here send the calls, and read the answers:
//
// | file | what it has |
// |---|---|
// | this one | the store |
// | `changes`, `reads` | saving, cancelling and moving, beginning and ending attempts; reading |
// | `look` | looking at timers and acting on many, pauses |
// | `membership`, `shards` | joining, renewing the lease, leaving, and which shards this instance owns |
// | `hints` | notifications by LISTEN and NOTIFY |
// | `user_transaction` | saving, cancelling and ending in a transaction of the user's |
// | `connections` | the pool, and statements that do nothing if they arrive too late |
// | `convert` | timers as parameters and as rows, one and many |
// | `options`, `error` | settings, the schema and its tables, errors |

mod changes;
mod connections;
mod convert;
mod error;
mod hints;
mod look;
mod membership;
mod options;
mod reads;
mod shards;
mod user_transaction;

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio_postgres::Socket;
use tokio_postgres::tls::{MakeTlsConnect, NoTls, TlsConnect};

use crate::id::{Place, TimerId, millis};
use crate::store::{
    Ask, Begun, Counts, Effects, Ended, Filter, Hint, Histories, Kinds, Loaded, Looked, Move, Near, NewTimer,
    Overdue, Owner, Paused, Picked, Removal, Renewed, Saved, Settled, Sight, Store, Stored, Taken, Tally,
    ToBegin, Which, all_calls,
};
use connections::Connections;
pub use error::PostgresError;
use hints::Hints;
use membership::OwnedShards;
pub use options::PostgresOptions;
use shards::AllShards;
pub use user_transaction::InTransaction;

type Result<T, E = PostgresError> = std::result::Result<T, E>;

/// A store in a PostgreSQL database, from version 12 on. Any number of instances share it: running programs, on one
/// machine or many. Clones are the same store.
///
/// The timers are divided into [shards](PostgresOptions::shards). One instance owns each shard: see
/// [many instances](crate::many_instances). An instance that is silent for longer than its [lease](crate::Builder::lease) loses its shards to the others.
///
/// When a call has answered, it is as durable as the database's `synchronous_commit` makes it. Calls are
/// statements without preparation, so a pooler may stand between the program and the database.
///
/// # Examples
///
/// This program only saves, cancels and moves. It has no handlers, so it gets no shards: other programs run the timers.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use timingwheel::TimingWheel;
/// use timingwheel_durable::{Durable, PostgresStore};
///
/// let store = PostgresStore::connect("postgres://app@localhost/shop").await?;
/// let durable = Durable::builder(&TimingWheel::new(), store).start().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct PostgresStore(Arc<Inner>);

struct Inner {
    connections: Connections,
    options: PostgresOptions,
    owned: OwnedShards,
    shards: AllShards,
    hints: Hints,
    /// Timers whose rows cannot be read: a hand has changed them. They stop no others.
    damaged: Mutex<HashSet<TimerId>>,
}

impl Inner {
    /// Notes a timer whose row cannot be read.
    fn readable(&self, timer: TimerId, read: Result<Stored>) -> Option<Stored> {
        if read.is_err() {
            self.damaged.lock().unwrap_or_else(PoisonError::into_inner).insert(timer);
        }
        read.ok()
    }
}

impl PostgresStore {
    /// Connects to a database without TLS, creates the tables where they are missing, and migrates those of an older format. A
    /// migration of large tables may take minutes.
    ///
    /// # Cancel safety
    /// It can be dropped and called again.
    ///
    /// # Errors
    /// [`PostgresError`]: the address, the connection, or tables of another format.
    pub async fn connect(url: &str) -> Result<Self, PostgresError> {
        Self::connect_with(PostgresOptions::new(url)?, NoTls).await
    }

    /// Connects to a database with settings and with TLS. `tls` is a connector of the client, such as those of
    /// `tokio-postgres-rustls` and `postgres-native-tls`, or [`NoTls`].
    ///
    /// # Cancel safety
    /// It can be dropped and called again.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn connect_with<T>(options: PostgresOptions, tls: T) -> Result<Self, PostgresError>
    where
        T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
        T::Stream: Send + Sync,
        T::TlsConnect: Send + Sync,
        <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
    {
        let connections = Connections::new(&options, tls)?;
        let shards = options::prepare(&connections, &options, options.creates).await?;
        let (owned, hints) = (OwnedShards::new(shards), Hints::default());
        let damaged = Mutex::default();
        Ok(Self(Arc::new(Inner { connections, options, owned, shards, hints, damaged })))
    }

    /// Creates the tables where they are missing, migrates those of an older format, and returns the format. Each step is a
    /// transaction, and one program at a time takes it. It needs the right to create and to alter them;
    /// [`PostgresOptions::create`] tells the programs that lack it.
    ///
    /// # Cancel safety
    /// It can be dropped and called again.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn migrate<T>(options: PostgresOptions, tls: T) -> Result<i32, PostgresError>
    where
        T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
        T::Stream: Send + Sync,
        T::TlsConnect: Send + Sync,
        <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
    {
        options::prepare(&Connections::new(&options, tls)?, &options, true).await?;
        Ok(options::KNOWN)
    }

    /// The SQL of all migrations, for people who run it by hand or by a tool of their own. For another schema than
    /// `timingwheel`, and for one migration at a time, use [`PostgresOptions::migrations`].
    #[must_use]
    pub fn tables() -> String {
        options::MIGRATIONS.concat() + options::FUNCTIONS
    }
}

/// Each call is a method of [`Inner`], in one of the files.
macro_rules! in_sql {
    ($($of:ident $call:ident($($name:ident: $type:ty),*) -> $answer:ty;)*) => {
        $(in_sql! { @ $of $call($($name: $type),*) -> $answer })*
    };
    (@ by_look $($call:tt)*) => {};
    (@ $of:ident $call:ident($($name:ident: $type:ty),*) -> $answer:ty) => {
        async fn $call(&self, $($name: $type),*) -> Result<$answer> {
            self.0.$call($($name),*).await
        }
    };
}

impl Store for PostgresStore {
    type Error = PostgresError;

    fn is_transient(error: &PostgresError) -> bool {
        error.is_transient()
    }

    all_calls! { in_sql }

    fn damaged(&self) -> u64 {
        self.0.damaged.lock().unwrap_or_else(PoisonError::into_inner).len() as u64
    }

    fn is_shared(&self) -> bool {
        true
    }

    async fn hint(&self, owner: Owner) -> Hint {
        self.0.next_hint(owner).await
    }

    fn cannot_read(&self, owner: Owner, kind: &str) {
        self.0.owned.cannot_read(owner.epoch, kind);
    }

    fn is_mine(&self, owner: Owner, timer: Near) -> bool {
        self.0.owned.has(owner.epoch, self.0.shards.of(timer.id.unique))
    }

    fn clock(&self, _: Owner) -> Option<Timestamp> {
        self.0.owned.clock()
    }

    fn number(&self, owner: Owner, count: u64, due: Timestamp, kind: &str) -> u64 {
        let due_in = millis(due).saturating_sub(self.0.owned.now_ms());
        self.0.owned.number(owner.epoch, count, due_in, kind)
    }
}

impl fmt::Debug for PostgresStore {
    /// Without the address, which may have a password in it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore").field("name", &self.0.options.name).finish_non_exhaustive()
    }
}
