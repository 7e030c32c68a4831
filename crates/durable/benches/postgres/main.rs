//! How many timers a second four instances on one PostgreSQL hand to handlers that do nothing, beside pgbench with rows
//! leased by 1,000 at a time; how long after `kill -9` others have the timers; what an old transaction costs; how late timers are
//! at 1,000 a second, how soon an instance starts beside an old snapshot, and what 5,000 cancels at once leave of a lease; what two
//! million timers cost that are stored and far, and what an instance and a poll cost meanwhile.
//!
//! `cargo bench -p timingwheel-durable-programs --features postgres --bench postgres`, with `-- --short` for a glimpse. It starts a
//! server by itself, in memory where there are files in memory: so processors count, and no disk. With `FSYNC=on` its files are on
//! the disk of the temporary folder, and synced.

#[allow(dead_code, reason = "tests use the rest")]
#[path = "../../tests/it/postgres/server.rs"]
mod server;

mod cost;
mod far;
mod idle;
mod instance;
mod second_day;

use std::env;
use std::fs;
use std::time::{Duration, Instant};

use timingwheel_durable::PostgresStore;
use tokio_postgres::{Client, NoTls};

use cost::{Cost, Meter, Table};
use far::Far;
use idle::Idle;
use instance::Instance;
use second_day::SecondDay;
use server::Server;

const INSTANCES: usize = 4;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    if let Some(asked) = instance::asked() {
        return runtime.block_on(instance::run(asked));
    }
    let is_short = env::args().any(|argument| argument == "--short");
    // `cargo test --benches` runs it, too, to see that it works.
    let is_short = is_short || !env::args().any(|argument| argument == "--bench");
    runtime.block_on(measure(if is_short { 8_000 } else { 200_000 }, is_short));
}

async fn client(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("a connection");
    tokio::spawn(connection);
    client
}

/// So many timers that are due, in all shards, with hints: all is there with the commit.
fn stored(count: u64) -> String {
    format!(
        "begin;
         insert into timingwheel.timers (shard, due_ms, number, first_ms, kind, payload)
         select n & 63, 1000 + n / 64, n, 1000 + n / 64, 'nothing', convert_to('{{\"filler\":\"' || repeat('x', 85) || '\"}}', 'UTF8')
         from generate_series(1, {count}) n;
         select pg_notify('timingwheel', n || ' 1000') from generate_series(0, 63) n;
         select pg_notify('timingwheel', n || ' ' || {last}) from generate_series(0, 63) n;
         commit",
        last = 1_000 + count / 64
    )
}

pub(crate) async fn execute(sql: &Client, statements: &str) {
    for statement in statements.split(';') {
        sql.batch_execute(statement).await.expect("a statement");
    }
}

async fn left(sql: &Client) -> i64 {
    let ask = format!("select count(*) from timingwheel.timers where due_ms < {}", far::FIRST);
    let row = sql.query_one(&ask, &[]).await.expect("a count");
    row.get(0)
}

/// Timers a second, by four instances, and what a save, and a begin with an end, cost the database.
async fn ours(server: &Server, sql: &Client, count: u64) -> (f64, Cost, Cost) {
    let url = &server.url("postgres");
    // The instances stand before there is anything to do.
    let instances: Vec<Instance> =
        (0..INSTANCES).map(|_| Instance::spawn(url, Duration::from_secs(30))).collect();
    loop {
        let row = sql
            .query_one("select count(distinct epoch) from timingwheel.shards join timingwheel.instances using (epoch)", &[])
            .await
            .expect("a count");
        if usize::try_from(row.get::<_, i64>(0)) == Ok(INSTANCES) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    let meter = Meter::read(server, sql).await;
    execute(sql, &stored(count)).await;
    let (begin, save) = (Instant::now(), meter.since(server, sql, count).await);
    let meter = Meter::read(server, sql).await;
    // The instances count. To count in the table as long as it has rows takes the database longer than its work.
    while instances.iter().map(Instance::done).sum::<u64>() < count {
        assert!(begin.elapsed() < Duration::from_secs(600), "it does not end");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let took = begin.elapsed();
    let rest = meter.since(server, sql, count).await;
    assert_eq!(left(sql).await, 0, "they have done the work");
    drop(instances);
    sql.batch_execute("delete from timingwheel.instances").await.expect("a delete");
    (count as f64 / took.as_secs_f64(), save, rest)
}

/// Rows a second, by pgbench: leased by an update that leaves out what others have locked, and then deleted.
async fn theirs(server: &Server, sql: &Client, count: u64) -> (f64, Cost) {
    execute(
        sql,
        &format!(
            "drop table if exists jobs;
             create table jobs (id bigint primary key, due bigint not null, leased_until timestamptz, payload bytea not null);
             create index on jobs (due, id);
             insert into jobs select n, 1000 + n / 64, null, convert_to('{{\"filler\":\"' || repeat('x', 85) || '\"}}', 'UTF8')
             from generate_series(1, {count}) n;
             vacuum analyze jobs"
        ),
    )
    .await;
    let script = "with leased as (
            update jobs set leased_until = now() + interval '30 seconds'
            where id in (
                select id from jobs where due <= 99999999 and (leased_until is null or leased_until < now())
                order by due, id limit 1000 for update skip locked
            ) returning id, payload
         ) select string_agg(id::text, ',') as ids, sum(length(payload)) as bytes from leased \\gset
         delete from jobs where id in (:ids);\n";
    let (meter, begin) = (Meter::read(server, sql).await, Instant::now());
    pgbench(server, INSTANCES, count / 1_000 / INSTANCES as u64, script);
    let took = begin.elapsed();
    let cost = meter.since(server, sql, count).await;
    let row = sql.query_one("select count(*) from jobs", &[]).await.expect("a count");
    assert_eq!(row.get::<_, i64>(0), 0, "it has done the work");
    (count as f64 / took.as_secs_f64(), cost)
}

/// Runs a script so many times on each of so many connections.
pub(crate) fn pgbench(server: &Server, clients: usize, times: u64, script: &str) {
    let file = server.folder().join("script.sql");
    fs::write(&file, script).expect("a script");
    let mut pgbench = server.program("pgbench");
    pgbench.args(["-n", "-j", "2", "-h", "127.0.0.1", "-U", "postgres", "-p", &server.port().to_string()]);
    pgbench.args(["-c", &clients.to_string(), "-t", &times.to_string(), "-f"]).arg(&file).arg("postgres");
    let ran = pgbench.output().expect("pgbench runs");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}

/// How long after `kill -9` the last of a dead instance's timers was begun, as a share of the lease.
async fn takeover(url: &str, sql: &Client, lease: Duration) -> f64 {
    let dies = Instance::spawn(url, lease);
    while sql
        .query_one("select count(*) from timingwheel.shards join timingwheel.instances using (epoch)", &[])
        .await
        .expect("a count")
        .get::<_, i64>(0)
        < 64
    {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let other = Instance::spawn(url, lease);
    while sql
        .query_one(
            "select count(distinct epoch) from timingwheel.shards join timingwheel.instances using (epoch)",
            &[],
        )
        .await
        .expect("a count")
        .get::<_, i64>(0)
        < 2
    {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // Anywhere between two heartbeats.
    tokio::time::sleep(lease.mul_f64(0.7 + fastrand::f64())).await;
    let begin = Instant::now();
    drop(dies);
    // Due now: those of the one that lives come at once, and the others when it has them.
    execute(sql, &stored(64)).await;
    while left(sql).await > 0 {
        assert!(begin.elapsed() < Duration::from_secs(600), "nobody takes over");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let took = begin.elapsed().as_secs_f64() / lease.as_secs_f64();
    drop(other);
    sql.batch_execute("delete from timingwheel.instances").await.expect("a delete");
    took
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

async fn measure(count: u64, is_short: bool) {
    let server = Server::start();
    let url = server.url("postgres");
    drop(PostgresStore::connect(&url).await.expect("the tables"));
    let sql = client(&url).await;
    let pairs = if is_short { 1 } else { 3 };
    let (mut rates, mut ratios, mut held) = (Vec::new(), Vec::new(), Vec::new());
    let (mut saves, mut rests, mut leases) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..pairs {
        let (rate, save, rest) = ours(&server, &sql, count).await;
        saves.push(save);
        rests.push(rest);
        let (rival, lease) = theirs(&server, &sql, count).await;
        leases.push(lease);
        println!("four instances {rate:.0} timers/s, pgbench with leases {rival:.0} rows/s");
        rates.push(rate);
        ratios.push(rate / rival);
        let old = client(&url).await;
        old.batch_execute("begin isolation level repeatable read; select count(*) from timingwheel.timers")
            .await
            .expect("a look");
        let (with, ..) = ours(&server, &sql, count).await;
        println!("with an old transaction open {with:.0} timers/s");
        held.push(with / rate);
        drop(old);
    }
    let lease = Duration::from_secs(2);
    let mut shares = Vec::new();
    for _ in 0..if is_short { 1 } else { 5 } {
        shares.push(takeover(&url, &sql, lease).await);
    }
    println!();
    println!("| measure | beside | got | target |");
    println!("|---|---|---|---|");
    println!(
        "| timers/s, four instances | pgbench with leases by 1,000 | {:.2} | 0.8, 1.5 |",
        median(ratios)
    );
    println!("| the same, with an old transaction open | without | {:.2} | 0.8, 0.95 |", median(held));
    println!("| all timers of a killed instance are done | its lease | {:.2} | 1.3, 1.1 |", median(shares));
    println!("| timers/s, four instances | | {:.0} | |", median(rates));
    for (what, costs) in [("save", saves), ("begin and end", rests), ("lease and delete by pgbench", leases)]
    {
        let of = |cost: fn(&Cost) -> f64| median(costs.iter().map(cost).collect());
        println!("| µs of the database's processors, {what} | a timer | {:.1} | |", of(|cost| cost.cpu_us));
        println!("| bytes of its log, {what} | a timer | {:.0} | |", of(|cost| cost.wal));
    }
    println!("{}", Table::measure(&sql, &stored(count), count).await);
    let dead = if is_short { 20_000 } else { 1_000_000 };
    println!("{}", SecondDay::measure(&server, &sql, dead).await);
    let far = if is_short { 20_000 } else { 2_000_000 };
    println!("{}", Far::measure(&server, &sql, far, count).await);
    println!("{}", Idle::measure(&server, &sql, far).await);
}
