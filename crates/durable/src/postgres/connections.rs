//! A pool of connections, and statements on it. Each statement is a transaction of its own. Some do nothing if they arrive too
//! late.

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{Hook, HookError, Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod};
use futures::future::BoxFuture;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;
use tokio_postgres::config::{Config, Host};
use tokio_postgres::error::SqlState;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, CancelToken, Client, Row, Socket};

use super::error::TOO_LATE;
use super::options::Schema;
use super::{InTransaction, Inner, PostgresError, PostgresOptions, Result, convert};

/// A parameter, which tells its type. So no statement has to be prepared, and a pooler may change the connection after each.
pub(super) trait Parameter: Sync {
    fn typed(&self) -> (&(dyn ToSql + Sync), Type);
}

macro_rules! parameters {
    ($($one:ty, $many:ty: $type:ident;)*) => {
        $(
            impl Parameter for $one {
                fn typed(&self) -> (&(dyn ToSql + Sync), Type) {
                    (self, Type::$type)
                }
            }

            impl Parameter for $many {
                fn typed(&self) -> (&(dyn ToSql + Sync), Type) {
                    (self, Type::$type)
                }
            }
        )*
    };
}

parameters! {
    bool, Option<bool>: BOOL;
    i32, Option<i32>: INT4;
    i64, Option<i64>: INT8;
    f32, Option<f32>: FLOAT4;
    &str, Option<&str>: TEXT;
    String, Option<String>: TEXT;
    &[u8], Option<&[u8]>: BYTEA;
    Vec<bool>, Vec<Option<bool>>: BOOL_ARRAY;
    Vec<i32>, Vec<Option<i32>>: INT4_ARRAY;
    Vec<i64>, Vec<Option<i64>>: INT8_ARRAY;
    Vec<&str>, Vec<Option<&str>>: TEXT_ARRAY;
    Vec<String>, Vec<Option<String>>: TEXT_ARRAY;
    Vec<&[u8]>, Vec<Option<&[u8]>>: BYTEA_ARRAY;
}

/// Where statements are sent: to the pool, each as a transaction of its own, or in a transaction of the user's.
pub(super) trait Sends: Sync {
    fn ask(
        &self,
        statement: &str,
        parameters: &[&dyn Parameter],
    ) -> impl Future<Output = Result<Vec<Row>>> + Send;

    /// The first row of an answer that has one.
    fn ask_one(
        &self,
        statement: &str,
        parameters: &[&dyn Parameter],
    ) -> impl Future<Output = Result<Row>> + Send {
        async move {
            let rows = self.ask(statement, parameters).await?;
            rows.into_iter().next().ok_or_else(|| PostgresError::Corrupt("no answer".into()))
        }
    }
}

/// A call of the user's, which may wait for a lock or read for long.
impl Sends for Connections {
    async fn ask(&self, statement: &str, parameters: &[&dyn Parameter]) -> Result<Vec<Row>> {
        Within { turns: Some(&self.turns), ..self.within(self.timeout) }.ask(statement, parameters).await
    }
}

/// A pool, and how long its statements may take.
pub(super) struct Within<'a> {
    connections: &'a Connections,
    pool: &'a Pool,
    /// For a connection, and then for the answer.
    limits: [Duration; 2],
    turns: Option<&'a Semaphore>,
}

/// # Errors
/// [`PostgresError::TimedOut`] if the call takes longer, and those of the call.
pub(super) async fn in_time<T>(limit: Duration, call: impl Future<Output = Result<T>>) -> Result<T> {
    timeout(limit, call).await.unwrap_or(Err(PostgresError::TimedOut(limit)))
}

impl Sends for InTransaction<'_> {
    async fn ask(&self, statement: &str, parameters: &[&dyn Parameter]) -> Result<Vec<Row>> {
        let statement = self.store.0.connections.schema.of(statement);
        let typed: Vec<_> = parameters.iter().map(|parameter| parameter.typed()).collect();
        Ok(self.transaction.query_typed(&statement, &typed).await?)
    }
}

/// How many times a statement is tried that conflicts with another one.
const TRIES: u32 = 5;

pub(super) struct Connections {
    pool: Pool,
    /// Users' calls take turns, and leave one connection to the runner: those that wait for open transactions delay no timer.
    turns: Semaphore,
    /// A connection of its own for the lease: users' calls, which may wait for locks, do not hold it up.
    of_lease: Pool,
    cancel: Cancel,
    pub(super) schema: Schema,
    timeout: Duration,
    listen: Listen,
    /// For error messages, without a password.
    address: String,
}

fn address(config: &Config) -> String {
    let hosts = config.get_hosts().iter().enumerate().map(|(index, host)| {
        let port = config.get_ports().get(index).or_else(|| config.get_ports().first()).unwrap_or(&5432);
        match host {
            Host::Tcp(host) => format!("{host}:{port}"),
            #[cfg(unix)]
            Host::Unix(path) => format!("{}:{port}", path.display()),
        }
    });
    let hosts = hosts.collect::<Vec<_>>().join(",");
    let database = config.get_dbname().or(config.get_user()).unwrap_or_default();
    format!("{hosts}/{database}")
}

fn unreached(address: &str, error: PoolError) -> PostgresError {
    match error {
        // The hook sets the limits of a new connection.
        PoolError::Backend(error) | PoolError::PostCreateHook(HookError::Backend(error)) => {
            PostgresError::Unreached { address: address.to_owned(), error }
        }
        other => PostgresError::Setting(other.to_string()),
    }
}

/// A connection, and the notifications on it.
pub(super) type Listening = (Client, mpsc::UnboundedReceiver<String>);

/// Tells the server that nobody waits for a statement any more.
type Cancel = Arc<dyn Fn(CancelToken) -> BoxFuture<'static, ()> + Send + Sync>;

type Listen = Box<dyn Fn() -> BoxFuture<'static, Result<Listening, PostgresError>> + Send + Sync>;

impl Connections {
    pub(super) fn new<T>(options: &PostgresOptions, tls: T) -> Result<Self>
    where
        T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
        T::Stream: Send + Sync,
        T::TlsConnect: Send + Sync,
        <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
    {
        let PostgresOptions { config, connections, timeout, schema, .. } = options;
        // No statement outlives its caller by more than its own limit, also where a cancel is lost. A pooler would hand these
        // settings to others.
        // 0 would be no limit, and the server takes no more than this.
        let millis = timeout.as_millis().clamp(1, i32::MAX.unsigned_abs().into());
        // The functions look at rows as they are once locks are theirs, and not as they were before.
        let limits = format!(
            "set statement_timeout = {millis}; set lock_timeout = {millis}; set standard_conforming_strings = on; \
             set default_transaction_isolation = 'read committed'"
        );
        let limits: Arc<str> = if options.listens { limits.into() } else { "".into() };
        let pool = |size| {
            let fast = ManagerConfig { recycling_method: RecyclingMethod::Fast };
            let manager = Manager::from_config(config.clone(), tls.clone(), fast);
            let limits = Arc::clone(&limits);
            let limit = Hook::async_fn(move |client: &mut deadpool_postgres::ClientWrapper, _| {
                let limits = Arc::clone(&limits);
                Box::pin(async move { client.batch_execute(&limits).await.map_err(HookError::Backend) })
            });
            let built = Pool::builder(manager).max_size(size).post_create(limit).build();
            built.map_err(|error| PostgresError::Setting(error.to_string()))
        };
        let (pool, of_lease, turns) = (pool(*connections)?, pool(1)?, Semaphore::new(*connections - 1));
        let of_cancel = tls.clone();
        let cancel: Cancel = Arc::new(move |token| {
            let tls = of_cancel.clone();
            // If it does not arrive, the statement has its own limit.
            Box::pin(async move { drop(token.cancel_query(tls).await) })
        });
        let (config, address) = (config.clone(), address(config));
        let to = address.clone();
        let listen: Listen = Box::new(move || {
            let (config, tls, address) = (config.clone(), tls.clone(), to.clone());
            Box::pin(async move {
                let connected = config.connect(tls).await;
                let (client, mut connection) =
                    connected.map_err(|error| PostgresError::Unreached { address, error })?;
                let (heard, hears) = mpsc::unbounded_channel();
                tokio::spawn(async move {
                    while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
                        if let AsyncMessage::Notification(note) = message
                            && heard.send(note.payload().to_owned()).is_err()
                        {
                            // Nobody hears it any more.
                            break;
                        }
                    }
                });
                Ok((client, hears))
            })
        });
        let schema = schema.clone();
        Ok(Self { pool, turns, of_lease, cancel, schema, timeout: *timeout, listen, address })
    }

    /// For calls of the runner, and others that wait for nobody.
    pub(super) fn for_runner(&self) -> Within<'_> {
        self.within(self.timeout)
    }

    /// The same, with another limit.
    pub(super) fn within(&self, limit: Duration) -> Within<'_> {
        Within { connections: self, pool: &self.pool, limits: [limit; 2], turns: None }
    }

    /// The connection for the lease. To make it may take longer than an answer is of use: a first host may be silent.
    pub(super) fn for_lease(&self, limit: Duration) -> Within<'_> {
        Within { connections: self, pool: &self.of_lease, limits: [self.timeout, limit], turns: None }
    }

    pub(super) async fn get(&self) -> Result<Object> {
        self.get_from(&self.pool).await
    }

    async fn get_from(&self, pool: &Pool) -> Result<Object> {
        pool.get().await.map_err(|error| unreached(&self.address, error))
    }

    pub(super) async fn listen(&self) -> Result<Listening> {
        let listen = format!("listen \"{}\"", self.schema.name());
        let (client, hears) = in_time(self.timeout, (self.listen)()).await?;
        in_time(self.timeout, async { Ok(client.batch_execute(&listen).await?) }).await?;
        Ok((client, hears))
    }
}

impl Sends for Within<'_> {
    /// The limit counts from when there is a connection, for which the call waits as long at the most.
    async fn ask(&self, statement: &str, parameters: &[&dyn Parameter]) -> Result<Vec<Row>> {
        let Self { connections, pool, limits: [to_wait, limit], turns } = *self;
        let (statement, mut tries) = (connections.schema.of(statement), 1);
        let parameters: Vec<_> = parameters.iter().map(|parameter| parameter.typed()).collect();
        loop {
            let connected = async {
                let turn = match turns {
                    Some(turns) => turns.acquire().await.ok(),
                    None => None,
                };
                Ok((turn, connections.get_from(pool).await?))
            };
            let (_turn, object) = in_time(to_wait, connected).await?;
            let mut taken = Taken { object: Some(object), cancel: Arc::clone(&connections.cancel) };
            let Some(client) = &taken.object else { unreachable!("it was put in") };
            let asked = timeout(limit, client.query_typed(&statement, &parameters)).await;
            let answer = asked.map_err(|_| PostgresError::TimedOut(limit))?.map_err(PostgresError::from);
            let object = taken.object.take();
            let has_code = |code| answer.as_ref().is_err_and(|error: &PostgresError| error.has_code(code));
            if has_code(&SqlState::READ_ONLY_SQL_TRANSACTION) {
                // Another server may have taken over: the next call looks for it.
                drop(object.map(Object::take));
            }
            // Nothing of the statement was done then, and the same one may succeed now.
            let conflicts = [SqlState::T_R_DEADLOCK_DETECTED, SqlState::T_R_SERIALIZATION_FAILURE];
            if tries == TRIES || !conflicts.iter().any(has_code) {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(fastrand::u64(1..=10 << tries))).await;
            tries += 1;
        }
    }
}

/// A connection in use. If its call is given up, the connection is closed: otherwise the next call would wait for the answer to
/// the first. The server is told to give the statement up too.
struct Taken {
    object: Option<Object>,
    cancel: Cancel,
}

impl Drop for Taken {
    fn drop(&mut self) {
        if let Some(object) = self.object.take() {
            let token = object.cancel_token();
            drop(Object::take(object));
            if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                runtime.spawn((self.cancel)(token));
            }
        }
    }
}

impl Inner {
    /// One statement that does nothing if it arrives when nobody waits for it any more. Its last parameter, which is added here,
    /// is that time, by the clock of the database.
    ///
    /// The clock is known from the last renewal. It may have been set since, or this machine was suspended. Then the statement is
    /// refused as too late although the caller waits. So the clock is read, and the statement is sent again.
    pub(super) async fn ask_in_time(
        &self,
        statement: &str,
        parameters: &[&dyn Parameter],
    ) -> Result<Vec<Row>> {
        let ask = async || {
            // Twice: the call may wait for a connection.
            let until = self.owned.clock_us(self.options.timeout.saturating_mul(2));
            let parameters = [parameters, &[&until as &dyn Parameter]].concat();
            self.connections.for_runner().ask(statement, &parameters).await
        };
        match ask().await {
            Err(error) if error.has_code(&SqlState::from_code(TOO_LATE)) => {
                let clock = "select (extract(epoch from clock_timestamp()) * 1000000)::bigint as now_us";
                let row = self.connections.for_runner().ask_one(clock, &[]).await?;
                self.owned.set_clock(convert::get(&row, "now_us")?);
                ask().await
            }
            answer => answer,
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio_postgres::NoTls;

    use super::*;

    #[tokio::test]
    async fn a_connection_that_breaks_while_its_limits_are_set_is_one_that_was_not_reached() {
        for hook in [false, true] {
            let refused = tokio_postgres::connect("postgres://nobody@127.0.0.1:1/none", NoTls).await;
            let error = refused.err().expect("nobody listens there");
            let error =
                if hook { PoolError::PostCreateHook(HookError::Backend(error)) } else { error.into() };
            let told = unreached("there", error);
            assert!(matches!(told, PostgresError::Unreached { .. }) && told.is_transient(), "{told:?}");
        }
    }
}
