//! The cost of far timers for the database.

use std::fmt;
use std::time::{Duration, Instant};

use tokio_postgres::Client;

use crate::cost::Cost;
use crate::server::Server;

/// When the first is due, in milliseconds: the year 2100.
pub(crate) const FIRST: i64 = 4_102_444_800_000;

/// What so many of them take, and what they cost others.
pub(crate) struct Far {
    count: u64,
    table: f64,
    index: f64,
    /// Timers a second beside them, by four instances.
    rate: f64,
    rest: Cost,
    /// Of the table with a fiftieth of its rows dead, as its settings have it.
    vacuum: Duration,
}

impl Far {
    /// So many are far, and `due` are due, on a server of its own.
    pub(crate) async fn measure(server: &Server, sql: &Client, count: u64, due: u64) -> Self {
        sql.batch_execute("truncate timingwheel.timers").await.expect("an empty table");
        // In no order, as timers are saved whose delays differ.
        let stored = format!(
            "insert into timingwheel.timers (shard, due_ms, number, first_ms, kind, payload)
             select number & 63, due, number, due, 'nothing',
                 convert_to('{{\"filler\":\"' || repeat('x', 85) || '\"}}', 'UTF8')
             from (select n + (1::bigint << 40) as number, {FIRST} + hashint8(n)::bigint + (1::bigint << 31) as due
                   from generate_series(1, {count}) n) far"
        );
        sql.batch_execute(&stored).await.expect("timers");
        sql.batch_execute("vacuum analyze timingwheel.timers").await.expect("statistics");
        let size = async |what: &str| -> f64 {
            let ask = format!("select {what}('timingwheel.timers')::float8");
            sql.query_one(&ask, &[]).await.expect("a size").get::<_, f64>(0) / count as f64
        };
        let (table, index) = (size("pg_table_size").await, size("pg_indexes_size").await);
        let (rate, _, rest) = crate::ours(server, sql, due).await;
        sql.batch_execute("vacuum timingwheel.timers").await.expect("a vacuum");
        let dead = format!("delete from timingwheel.timers where number % 50 = 0 and due_ms >= {FIRST}");
        assert!(sql.execute(&dead, &[]).await.expect("a delete") >= count / 60, "a fiftieth");
        let begin = Instant::now();
        sql.batch_execute("vacuum timingwheel.timers").await.expect("a vacuum");
        Self { count, table, index, rate, rest, vacuum: begin.elapsed() }
    }
}

impl fmt::Display for Far {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { count, table, index, rate, rest, vacuum } = self;
        writeln!(f, "| timers/s, four instances, with {count} far ones | | {rate:.0} | |")?;
        let cpu = rest.cpu_us;
        writeln!(f, "| µs of the database's processors, begin and end, the same | a timer | {cpu:.1} | |")?;
        writeln!(f, "| bytes of its log, begin and end, the same | a timer | {:.0} | |", rest.wal)?;
        writeln!(f, "| bytes in the table, {count} far ones | a stored timer | {table:.0} | |")?;
        writeln!(f, "| bytes in the indexes, {count} far ones | a stored timer | {index:.0} | |")?;
        let took = vacuum.as_secs_f64();
        write!(f, "| s of a vacuum that clears a fiftieth of {count}, one process | | {took:.2} | |")
    }
}
