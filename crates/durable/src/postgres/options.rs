//! What a store is told before it connects.

use std::time::Duration;

use tokio_postgres::Config;

use super::schema_name::Schema;
use super::{PostgresError, migrate};

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
}

impl PostgresOptions {
    /// The database at this address, such as `postgres://user@host/database`, or `host=/run/postgresql user=app`.
    ///
    /// # Errors
    /// [`PostgresError::Setting`] if it is no address.
    pub fn new(url: &str) -> Result<Self, PostgresError> {
        // The text is not told: it may have a password in it.
        let config = url.parse::<Config>().map_err(|error| {
            PostgresError::Setting(format!("an address must be as postgres://user@host/database: {error}"))
        })?;
        Ok(Self::of(config))
    }

    /// The database that a configuration of the client names.
    #[must_use]
    pub fn of(mut config: Config) -> Self {
        if config.get_application_name().is_none() {
            config.application_name("timingwheel-durable");
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
        }
    }

    /// How many connections are open at the most, beside the one that listens. Unless it is set, 4; at least 2.
    #[must_use]
    pub fn connections(mut self, most: usize) -> Self {
        self.connections = most.max(2);
        self
    }

    /// How long a call waits for its answer. Then it fails, and its connection is given up. Unless it is set, 10 seconds.
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

    /// Gives this instance all timers, and takes them from any former owner: for a program that runs in one instance.
    #[must_use]
    pub fn sole(mut self) -> Self {
        self.is_sole = true;
        self
    }

    /// Whether a connection listens for hints of timers that others save. Unless it is set, it does. A pooler that shares
    /// connections among transactions lets nobody listen; then timers that others save for the next seconds wait for the
    /// look that is taken each third of a lease.
    #[must_use]
    pub fn listen(mut self, listens: bool) -> Self {
        self.listens = listens;
        self
    }

    /// Whether the tables are created where they are missing. Unless it is set, they are.
    #[must_use]
    pub fn create(mut self, creates: bool) -> Self {
        self.creates = creates;
        self
    }

    /// The schema that the tables are in. Unless it is set, `timingwheel`. Timers of two schemas in one database have
    /// nothing to do with each other.
    ///
    /// Functions are then called by this name.
    ///
    /// # Errors
    /// [`PostgresError::Setting`] unless the name is 1 to 63 of `a` to `z`, `0` to `9` and `_`, with no digit first, and
    /// does not begin with `pg_`.
    pub fn schema(mut self, name: impl Into<String>) -> Result<Self, PostgresError> {
        self.schema = Schema::new(name.into())?;
        Ok(self)
    }

    /// The file that creates the tables, for this schema: see [`PostgresStore::tables`](super::PostgresStore::tables).
    #[must_use]
    pub fn tables(&self) -> String {
        self.schema.of(migrate::FIRST).into_owned()
    }
}
