//! Settings of a store, its schema, and the tables in it.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::TargetSessionAttrs;

use super::connections::{Connections, in_time};
use super::shards::AllShards;
use super::{PostgresError, Result};

/// Settings of a [`PostgresStore`](super::PostgresStore).
#[derive(Clone, Debug)]
pub struct PostgresOptions {
    pub(super) config: Config,
    pub(super) connections: usize,
    pub(super) timeout: Duration,
    pub(super) name: String,
    pub(super) is_sole: bool,
    pub(super) listens: bool,
    pub(super) creates: bool,
    pub(super) schema: Schema,
    shards: AllShards,
}

impl PostgresOptions {
    /// The database at this address, such as `postgres://user@host/database`, or `host=/run/postgresql user=app`.
    ///
    /// # Errors
    /// [`PostgresError::Setting`] if it is no address.
    pub fn new(url: &str) -> Result<Self, PostgresError> {
        // The text is not told: it may have a password in it.
        let config = url.parse::<Config>().map_err(|error| {
            // The client's cause names an option that it does not know.
            let cause =
                std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
            PostgresError::Setting(format!(
                "an address must be as postgres://user@host/database: {error}{cause}"
            ))
        })?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            let text = "an address must be as postgres://user@host/database, got one without a host";
            return Err(PostgresError::Setting(text.to_owned()));
        }
        Ok(Self::of(config))
    }

    /// The database that a configuration of the client names.
    #[must_use]
    pub fn of(mut config: Config) -> Self {
        if config.get_application_name().is_none() {
            config.application_name("timingwheel-durable");
        }
        // A peer that is gone without a word is noticed in some ten seconds, and a host that is silent hides no other one.
        // What the caller has set stays.
        if config.get_keepalives_idle() == Config::new().get_keepalives_idle() {
            config.keepalives_idle(Duration::from_secs(5));
        }
        if config.get_keepalives_interval().is_none() {
            config.keepalives_interval(Duration::from_secs(2));
        }
        if config.get_keepalives_retries().is_none() {
            config.keepalives_retries(3);
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(Duration::from_secs(10));
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(Duration::from_secs(3));
        }
        // Of several hosts, the one that takes writes.
        if config.get_hosts().len() > 1 && config.get_target_session_attrs() == TargetSessionAttrs::Any {
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "localhost".to_owned());
        Self {
            config,
            connections: 4,
            timeout: Duration::from_secs(10),
            name: format!("{host}:{}", std::process::id()),
            is_sole: false,
            listens: true,
            creates: true,
            schema: Schema::default(),
            shards: AllShards::default(),
        }
    }

    /// How many connections calls share at the most. Your calls leave one of them to the timers, so calls that wait for an open
    /// transaction make no timer late. The lease has one more connection, and another one listens. Unless it is set, 4; at least 2.
    #[must_use]
    pub fn connections(mut self, most: usize) -> Self {
        self.connections = most.max(2);
        self
    }

    /// How long a call waits for its answer. Then it fails, and its connection is given up. Unless it is set, 10 seconds. A
    /// migration takes as long as it needs.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// How the instance is called in the table of instances, for people. Unless it is set, the host and the process.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into().replace('\0', "");
        self
    }

    /// Gives this instance all timers, and takes them from any other: for a program that runs in one instance.
    #[must_use]
    pub fn sole(mut self) -> Self {
        self.is_sole = true;
        self
    }

    /// Whether a connection listens for hints of timers that other instances save. The default is yes. It must be no if a pooler
    /// shares connections among transactions. Then a timer that another instance saves for the next seconds may be late by a third
    /// of a lease.
    #[must_use]
    pub fn listen(mut self, listens: bool) -> Self {
        self.listens = listens;
        self
    }

    /// Whether a connect creates the tables where they are missing, and migrates those of an older format. Unless it is set, it
    /// does. If not, it fails unless somebody has called [`migrate`](super::PostgresStore::migrate) or has run the SQL.
    #[must_use]
    pub fn create(mut self, creates: bool) -> Self {
        self.creates = creates;
        self
    }

    /// The schema of the tables. The default is `timingwheel`. Two schemas in one database are two separate stores.
    ///
    /// The SQL functions are in this schema too.
    ///
    /// # Errors
    /// [`PostgresError::Setting`] unless the name is 1 to 63 of `a` to `z`, `0` to `9` and `_`, with no digit first, and
    /// does not begin with `pg_`.
    pub fn schema(mut self, name: impl Into<String>) -> Result<Self, PostgresError> {
        self.schema = Schema::new(name.into())?;
        Ok(self)
    }

    /// How many shards the timers are divided into, and so how many instances at the most have timers. This counts when the
    /// schema is made, and never afterwards: the number is stored in the schema. The default is 64.
    ///
    /// An instance reads each of its shards when it loads. [The page about sizing](crate::sizing) says what more shards cost.
    /// With more instances than shards, some have nothing to do until others end.
    ///
    /// # Errors
    /// [`PostgresError::Setting`] unless the number is a power of two from 64 to 1,024.
    pub fn shards(mut self, count: u32) -> Result<Self, PostgresError> {
        self.shards = AllShards::new(count)?;
        Ok(self)
    }

    /// The migrations, for this schema, from that to format 1 on. Each is a transaction of its own. The last ends with the
    /// functions, which replace those of older formats.
    #[must_use]
    pub fn migrations(&self) -> Vec<String> {
        let last = format!("generate_series(64, {} - 1)", self.shards.count());
        let of_this =
            |sql: &&str| self.schema.of(&sql.replace("generate_series(64, 64 - 1)", &last)).into_owned();
        let mut all: Vec<_> = MIGRATIONS.iter().map(of_this).collect();
        if let Some(last) = all.last_mut() {
            last.push_str(&self.schema.of(FUNCTIONS));
        }
        all
    }
}

/// The schema that the statements in this crate name.
const USUAL: &str = "timingwheel";

/// How long a name may be. The database would cut off a longer one.
const LONGEST: usize = 63;

/// The name of a schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Schema(Arc<str>);

impl Default for Schema {
    fn default() -> Self {
        Self(USUAL.into())
    }
}

impl Schema {
    /// # Errors
    /// [`PostgresError::Setting`] if the name would have to be quoted.
    pub(super) fn new(name: String) -> Result<Self> {
        let mut letters = name.bytes();
        let is_allowed = letters.next().is_some_and(|first| first.is_ascii_lowercase() || first == b'_')
            && letters.all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == b'_')
            && name.len() <= LONGEST
            && !name.starts_with("pg_");
        if is_allowed {
            return Ok(Self(name.into()));
        }
        Err(PostgresError::Setting(format!(
            "the name of a schema must be 1 to {LONGEST} of a to z, 0 to 9 and _, with no digit first and no pg_, got {name:?}"
        )))
    }

    pub(super) fn name(&self) -> &str {
        &self.0
    }

    /// A statement of this crate's, for this schema. Statements have the usual name before a point, in quotes, and where
    /// the schema is created, and nowhere else.
    pub(super) fn of<'a>(&self, statement: &'a str) -> Cow<'a, str> {
        if *self.0 == *USUAL {
            return Cow::Borrowed(statement);
        }
        // In double quotes, because it may be a keyword.
        let name = &self.0;
        let named = statement.replace(&format!("{USUAL}."), &format!("\"{name}\"."));
        let named = named.replace(&format!("'{USUAL}'"), &format!("'{name}'"));
        Cow::Owned(named.replace(&format!("schema {USUAL}"), &format!("schema \"{name}\"")))
    }
}

/// The newest format that this version knows.
pub(super) const KNOWN: i32 = 4;

/// From each format to the next.
pub(super) const MIGRATIONS: [&str; KNOWN as usize] = [
    include_str!("sql/migration_1.sql"),
    include_str!("sql/migration_2.sql"),
    include_str!("sql/migration_3.sql"),
    include_str!("sql/migration_4.sql"),
];

/// Of the newest format. They replace those of any other.
pub(super) const FUNCTIONS: &str = include_str!("sql/functions.sql");

/// A migration of a large table takes long, and other programs wait until it has ended. It waits itself for users' transactions,
/// but not for long: all others wait behind it.
const TAKE_TURNS: &str = "set transaction isolation level read committed; set local statement_timeout = 0; \
    set local lock_timeout = 0; \
    select pg_advisory_xact_lock(hashtext('timingwheel'), hashtext('tables')); set local lock_timeout = '5s'";

/// Creates the tables where they are missing, and migrates them. Tables of a newer format are left as they are, if they work with
/// this version. Returns how many shards there are.
pub(super) async fn prepare(
    connections: &Connections,
    options: &PostgresOptions,
    creates: bool,
) -> Result<AllShards> {
    let looking = async {
        let object = connections.get().await?;
        let encoding: String = object.query_typed_one("show server_encoding", &[]).await?.try_get(0)?;
        let found = format(connections, &**object).await?;
        Ok((object, encoding, found))
    };
    let (mut object, encoding, mut found) = in_time(options.timeout, looking).await?;
    if encoding != "UTF8" {
        return Err(PostgresError::Setting(format!(
            "the database must have the encoding UTF8, got {encoding}"
        )));
    }
    while creates && found.is_none_or(|(version, _)| version < KNOWN) {
        let transaction = object.transaction().await?;
        transaction.batch_execute(&connections.schema.of(TAKE_TURNS)).await?;
        found = format(connections, &*transaction).await?;
        let next = found.map_or(0, |(version, _)| version);
        if let Some(sql) = usize::try_from(next).ok().and_then(|next| options.migrations().get(next).cloned())
        {
            transaction.batch_execute(&sql).await?;
            found = format(connections, &*transaction).await?;
        }
        transaction.commit().await?;
    }
    allow(found)?;
    // Whoever only saves may not read the table of shards.
    let last = connections.schema.of("select timingwheel.shard_of(-1)");
    let last = in_time(options.timeout, async { Ok(object.query_typed_one(&last, &[]).await?) }).await?;
    let last: i16 = last.try_get(0)?;
    AllShards::new(u32::from(last.unsigned_abs()) + 1)
}

/// Whether this version works with the tables.
pub(super) async fn check(connections: &Connections) -> Result<()> {
    allow(format(connections, &**connections.get().await?).await?)
}

pub(super) fn allow(found: Option<(i32, i32)>) -> Result<()> {
    match found {
        Some((_, oldest)) if oldest > KNOWN => Err(PostgresError::Format { oldest, known: KNOWN }),
        Some((version, _)) if version < KNOWN => Err(PostgresError::Old { version, known: KNOWN }),
        Some(_) => Ok(()),
        None => Err(PostgresError::NoTables),
    }
}

/// The format of the tables, and the oldest that a program has to know; `None` where there are none.
async fn format(
    connections: &Connections,
    client: &impl tokio_postgres::GenericClient,
) -> Result<Option<(i32, i32)>> {
    let there =
        "select 1 from pg_catalog.pg_tables where schemaname = 'timingwheel' and tablename = 'format'";
    if client.query_typed(&connections.schema.of(there), &[]).await?.is_empty() {
        return Ok(None);
    }
    let statement = connections.schema.of("select version, oldest from timingwheel.format");
    let row = client.query_typed_one(&statement, &[]).await?;
    Ok(Some((row.try_get(0)?, row.try_get(1)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_would_have_to_be_quoted_is_refused_with_what_is_allowed() {
        for name in ["a", "_", "timers_2", "select", &"x".repeat(63)] {
            assert!(Schema::new(name.to_owned()).is_ok(), "{name}");
        }
        for name in ["", "2a", "A", "a-b", "a.b", "a\"b", "ä", "pg_x", &"x".repeat(64)] {
            let error = Schema::new(name.to_owned()).expect_err(name).to_string();
            assert!(
                error.contains("must be 1 to 63") && error.ends_with(&format!("got {name:?}")),
                "{error}"
            );
        }
    }

    #[test]
    fn what_an_address_says_of_the_connection_stays() {
        let address = "postgres://a,b/d?keepalives_idle=60&keepalives_interval=7&keepalives_retries=9\
            &connect_timeout=20&tcp_user_timeout=30&target_session_attrs=read-only";
        let config = PostgresOptions::new(address).expect("an address").config;
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        assert_eq!(Some(config.get_keepalives_idle()), seconds(60));
        assert_eq!(config.get_keepalives_interval(), seconds(7));
        assert_eq!(config.get_keepalives_retries(), Some(9));
        assert_eq!(config.get_connect_timeout().copied(), seconds(20));
        assert_eq!(config.get_target_session_attrs(), TargetSessionAttrs::ReadOnly);
        let usual = PostgresOptions::new("postgres://a,b/d").expect("an address").config;
        assert_eq!(usual.get_target_session_attrs(), TargetSessionAttrs::ReadWrite);
        assert_eq!(Some(usual.get_keepalives_idle()), seconds(5));
    }

    #[test]
    fn an_address_without_a_host_is_refused() {
        for address in ["", "user=app dbname=shop", "postgres:///shop"] {
            let error = PostgresOptions::new(address).expect_err("a refusal").to_string();
            assert!(error.ends_with("got one without a host"), "{address:?}: {error}");
        }
        PostgresOptions::new("hostaddr=127.0.0.1 user=app").expect("an address");
    }

    #[test]
    fn an_option_that_the_client_does_not_know_is_named() {
        let error = PostgresOptions::new("postgres://a/d?pool_size=3").expect_err("a refusal").to_string();
        assert!(error.contains("pool_size"), "{error}");
    }

    #[test]
    fn a_migration_replaces_every_function_of_any_format() {
        let (dropped, _) = FUNCTIONS.split_once("loop").expect("a list of names");
        for sql in MIGRATIONS.iter().copied().chain([FUNCTIONS]) {
            for rest in sql.split("create function timingwheel.").skip(1) {
                let name = rest.split('(').next().expect("a name");
                assert!(dropped.contains(&format!("'{name}'")), "{name} is not dropped");
            }
        }
    }

    #[test]
    fn no_statement_of_the_tables_names_the_usual_schema_where_there_is_another() {
        let schema = Schema::new("other".to_owned()).expect("a name");
        let tables = MIGRATIONS.concat() + FUNCTIONS;
        let tables = schema.of(&tables);
        let statements = tables.lines().filter(|line| !line.trim_start().starts_with("--"));
        let left: Vec<&str> = statements.filter(|line| line.contains(USUAL)).collect();
        assert_eq!(left, [""; 0]);
    }
}
