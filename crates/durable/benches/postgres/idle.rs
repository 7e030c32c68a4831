//! What an idle instance and a worker that polls cost the database while all timers are far.

use std::fmt;

use tokio_postgres::Client;

use crate::cost::{Cost, Meter};
use crate::far::FIRST;
use crate::server::Server;

const QUESTIONS: u64 = 5_000;

pub(crate) struct Idle {
    count: u64,
    /// Of a renewal, which scans, too.
    renewal: Cost,
    poll: Cost,
}

impl Idle {
    /// Beside the far timers that are there, and as many far jobs.
    pub(crate) async fn measure(server: &Server, sql: &Client, count: u64) -> Self {
        // Otherwise the server's own vacuum counts.
        sql.batch_execute("vacuum analyze timingwheel.timers").await.expect("a vacuum");
        let join = "select epoch from timingwheel.join_instance(90000, 'idle', false, '{nothing}', 1)";
        let epoch: i64 = sql.query_one(join, &[]).await.expect("a join").get(0);
        let renew = format!(
            "select r.*, (select paused from timingwheel.format) as paused from timingwheel.renew({epoch}, 1, 90000, \
            (extract(epoch from now()) * 1000)::bigint - 60000, null, '{{}}') r;\n"
        );
        let meter = Meter::read(server, sql).await;
        crate::pgbench(server, 1, QUESTIONS, &renew);
        let renewal = meter.since(server, sql, QUESTIONS).await;
        sql.batch_execute(&format!("select timingwheel.leave({epoch}, 1)")).await.expect("a leave");
        let jobs = format!(
            "drop table if exists jobs;
             create table jobs (id bigint primary key, due bigint not null, leased_until timestamptz, payload bytea not null);
             insert into jobs select n, {FIRST} + n, null, convert_to(repeat('x', 100), 'UTF8') from generate_series(1, {count}) n;
             create index on jobs (due, id);
             vacuum analyze jobs"
        );
        crate::execute(sql, &jobs).await;
        let poll = "select id from jobs where due <= (extract(epoch from now()) * 1000)::bigint \
            and (leased_until is null or leased_until < now()) order by due, id limit 1000 for update skip locked;\n";
        let meter = Meter::read(server, sql).await;
        crate::pgbench(server, 1, QUESTIONS, poll);
        Self { count, renewal, poll: meter.since(server, sql, QUESTIONS).await }
    }
}

impl fmt::Display for Idle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { count, renewal, poll } = self;
        for (what, each, cost) in [
            ("of an idle instance", "a renewal", renewal),
            ("that finds no job by `skip locked`", "a poll", poll),
        ] {
            writeln!(
                f,
                "| µs of the database's processors {what}, beside {count} | {each} | {:.0} | |",
                cost.cpu_us
            )?;
            writeln!(f, "| bytes of its log, the same | {each} | {:.0} | |", cost.wal)?;
        }
        Ok(())
    }
}
