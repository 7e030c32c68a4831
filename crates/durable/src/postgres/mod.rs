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
use tokio::time::timeout;
use tokio_postgres::tls::{MakeTlsConnect, NoTls, TlsConnect};
use tokio_postgres::{Row, Socket};

use crate::id::{Place, TimerId, millis};
use crate::store::{
    Ask, Begun, Counts, Effects, Ended, Hint, Histories, Kinds, Loaded, Look, Looked, Move, Near, NewTimer,
    Overdue, Owner, Page, Paused, Picked, Removal, Renewed, Saved, Settled, Sight, Store, Stored, Taken,
    Tally, ToBegin, Which,
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
    /// Connects to a database without TLS, creates the tables where they are missing, and migrates those of an older format.
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
        let prepared = options::prepare(&connections, &options, options.creates);
        let prepared = timeout(options.timeout, prepared).await;
        let shards = prepared.unwrap_or(Err(PostgresError::TimedOut(options.timeout)))?;
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

/// The first row of an answer that has one.
fn only(rows: &[Row]) -> Result<&Row> {
    rows.first().ok_or_else(|| PostgresError::Corrupt("no answer".into()))
}

impl Store for PostgresStore {
    type Error = PostgresError;

    fn is_transient(error: &PostgresError) -> bool {
        error.is_transient()
    }

    fn check(timer: &NewTimer) -> Result<()> {
        convert::text("a kind", &timer.kind)?;
        convert::text("a key", timer.key.as_deref().unwrap_or_default())?;
        let unique = timer.id.unique;
        if convert::number(timer.id) < 0 {
            return Err(PostgresError::Text(format!(
                "the number of a timer must be below 2^63, got {unique}"
            )));
        }
        Ok(())
    }

    async fn join(&self, lease: Duration, kinds: Kinds) -> Result<Owner> {
        self.0.join(lease, kinds).await
    }

    async fn leave(&self, owner: Owner) -> Result<u64> {
        self.0.leave(owner).await
    }

    async fn save(&self, timers: Vec<NewTimer>) -> Result<Vec<Saved>> {
        timers.iter().try_for_each(Self::check)?;
        let answers = changes::save(&self.0.connections, &timers).await?;
        for answer in &answers {
            if let Saved::Stored(id) | Saved::Replaced { id, .. } | Saved::Follows { id, .. } = answer {
                self.0.note(Near::from(*id));
            }
        }
        self.0.send_what_came_late().await;
        Ok(answers)
    }

    async fn load(&self, owner: Owner, ask: Ask) -> Result<Loaded> {
        reads::load(&self.0, owner, &ask).await
    }

    async fn begin(&self, owner: Owner, ask: ToBegin) -> Result<Vec<Begun>> {
        changes::begin(&self.0, owner, &ask).await
    }

    async fn settle(&self, owner: Owner, ends: Vec<Ended>) -> Result<Vec<Settled>> {
        let nears: Vec<_> = ends.iter().map(|ended| ended.change.put().map(|put| put.timer)).collect();
        let answers = changes::settle(&self.0, owner, ends).await?;
        for (near, answer) in nears.into_iter().zip(&answers) {
            if let (Some(near), Settled::Done) = (near, answer) {
                self.0.note(near);
            }
        }
        Ok(answers)
    }

    async fn cancel(&self, which: Which) -> Result<Removal> {
        changes::cancel(&self.0.connections, &which).await
    }

    async fn get(&self, which: Which) -> Result<Option<Stored>> {
        changes::find(&self.0.connections, &which).await
    }

    async fn reschedule(&self, which: Which, due: Timestamp) -> Result<Move> {
        let answer = changes::reschedule(&self.0.connections, &which, millis(due)).await?;
        if let Move::Moved { to, .. } = answer {
            self.0.note(to);
        }
        self.0.send_what_came_late().await;
        Ok(answer)
    }

    async fn unbury(&self, id: TimerId, due: Option<Timestamp>, number: u64) -> Result<Taken> {
        let answer = changes::unbury(&self.0.connections, id, due.map(millis), number).await?;
        if let Taken::Stored(near) = answer {
            self.0.note(near);
        }
        self.0.send_what_came_late().await;
        Ok(answer)
    }

    async fn list(&self, page: Page) -> Result<Vec<Stored>> {
        reads::list(&self.0, page).await
    }

    async fn series(&self, owner: Owner, after: Place, limit: usize) -> Result<Vec<Stored>> {
        reads::series(&self.0, owner, after, limit).await
    }

    async fn overdue(&self, owner: Owner, until: Timestamp, _: Kinds) -> Result<Vec<Overdue>> {
        reads::overdue(&self.0, owner, until.as_millisecond()).await
    }

    /// Estimates a table of more than half a gigabyte from a sample of its pages.
    async fn count(&self) -> Result<Counts> {
        reads::count(&self.0.connections).await
    }

    async fn look(&self, look: Look) -> Result<Looked> {
        look::look(&self.0, &look).await
    }

    async fn tally(&self, _: Sight) -> Result<Tally> {
        look::tally(&self.0.connections).await
    }

    async fn act(&self, picked: Vec<Picked>, due: Option<Timestamp>) -> Result<Effects> {
        let effects = look::act(&self.0.connections, &picked, due.map(millis)).await?;
        effects.stored.iter().for_each(|near| self.0.note(*near));
        self.0.send_what_came_late().await;
        Ok(effects)
    }

    async fn pause(&self, change: Option<(String, bool)>) -> Result<Paused> {
        look::pause(&self.0.connections, change).await
    }

    async fn keep_history(&self, kind: String, age: Duration) -> Result<()> {
        look::keep_history(&self.0.connections, &kind, age).await
    }

    async fn histories(&self) -> Result<Histories> {
        look::histories(&self.0.connections).await
    }

    async fn prune(&self, most: usize) -> Result<usize> {
        look::prune(&self.0.connections, most).await
    }

    fn damaged(&self) -> u64 {
        self.0.damaged.lock().unwrap_or_else(PoisonError::into_inner).len() as u64
    }

    fn is_shared(&self) -> bool {
        true
    }

    async fn renew(&self, owner: Owner, from: Option<Timestamp>) -> Result<Renewed> {
        self.0.renew(owner, from).await
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

    fn clock(&self, owner: Owner) -> Option<Timestamp> {
        self.0.owned.clock(owner.epoch)
    }

    fn number(&self, owner: Owner, count: u64, due: Timestamp, kind: &str) -> u64 {
        let due_in = millis(due).saturating_sub(self.0.owned.now_ms(owner.epoch));
        self.0.owned.number(owner.epoch, count, due_in, kind)
    }
}

impl fmt::Debug for PostgresStore {
    /// Without the address, which may have a password in it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore").field("name", &self.0.options.name).finish_non_exhaustive()
    }
}
