//! What an idle instance and a worker that polls cost the database while all timers are far.

use std::fmt;
use std::time::Duration;

use tokio_postgres::Client;

use crate::cost::{Cost, Meter};
use crate::far::FIRST;
use crate::second_day::{Calls, start};
use crate::server::Server;

const POLLS: u64 = 10_000;
const RENEWALS: u64 = 20;

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
        let durable = start(&server.url("postgres"), &Calls::default()).await;
        let renewals = || durable.stats().renewals;
        let wait = async |until: u64| {
            while renewals() < until {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        // The first ones load.
        wait(5).await;
        let (before, meter) = (renewals(), Meter::read(server, sql).await);
        wait(before + RENEWALS).await;
        let renewal = meter.since(server, sql, renewals() - before).await;
        durable.stop(Duration::from_secs(3)).await;
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
        crate::pgbench(server, 1, POLLS, poll);
        Self { count, renewal, poll: meter.since(server, sql, POLLS).await }
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
