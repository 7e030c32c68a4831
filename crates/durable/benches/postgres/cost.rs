//! The cost of timers for the database: time of its processors, bytes of its log, bytes in its files.

use std::fmt;
use std::time::{Duration, Instant};

use tokio_postgres::Client;

use crate::server::Server;

/// Where the log and the processors' clock stand.
pub(crate) struct Meter {
    cpu: Duration,
    place: String,
}

/// Between two looks, for each of so many timers.
#[derive(Clone, Copy)]
pub(crate) struct Cost {
    pub(crate) cpu_us: f64,
    pub(crate) wal: f64,
}

impl Meter {
    pub(crate) async fn read(server: &Server, sql: &Client) -> Self {
        let place =
            sql.query_one("select pg_current_wal_insert_lsn()::text", &[]).await.expect("a place").get(0);
        Self { cpu: server.cpu(), place }
    }

    pub(crate) async fn since(&self, server: &Server, sql: &Client, count: u64) -> Cost {
        let cpu = server.cpu().saturating_sub(self.cpu);
        let bytes = "select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), ($1::text)::pg_lsn)::float8";
        let wal: f64 = sql.query_one(bytes, &[&self.place]).await.expect("bytes").get(0);
        Cost { cpu_us: cpu.as_secs_f64() * 1e6 / count as f64, wal: wal / count as f64 }
    }
}

/// What a table of timers holds and how long it takes to clear it of dead rows.
pub(crate) struct Table {
    bytes: f64,
    vacuum: Duration,
    count: u64,
}

impl Table {
    /// Of so many timers, on a server of its own.
    pub(crate) async fn measure(sql: &Client, stored: &str, count: u64) -> Self {
        sql.batch_execute("truncate timingwheel.timers").await.expect("an empty table");
        crate::execute(sql, stored).await;
        let size = "select pg_total_relation_size('timingwheel.timers')::float8";
        let bytes: f64 = sql.query_one(size, &[]).await.expect("a size").get(0);
        let dead = "update timingwheel.timers set begun_by = 1, attempts = 1;delete from timingwheel.timers";
        sql.batch_execute("alter table timingwheel.timers set (autovacuum_enabled = off)")
            .await
            .expect("a setting");
        crate::execute(sql, dead).await;
        let begin = Instant::now();
        sql.batch_execute("vacuum timingwheel.timers").await.expect("a vacuum");
        let vacuum = begin.elapsed();
        sql.batch_execute("alter table timingwheel.timers reset (autovacuum_enabled)")
            .await
            .expect("a setting");
        Self { bytes: bytes / count as f64, vacuum, count }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = self.count as f64 / self.vacuum.as_secs_f64();
        writeln!(f, "| bytes in the files, table and index | a stored timer | {:.0} | |", self.bytes)?;
        write!(f, "| timers/s that vacuum clears, two dead rows each, one process | | {rate:.0} | |")
    }
}
