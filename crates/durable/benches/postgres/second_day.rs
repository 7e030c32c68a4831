//! How late timers are at a steady rate, how soon an instance starts beside an old snapshot, and what many cancels at once leave of
//! a lease. One instance, in this process.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::future::join_all;
use jiff::Timestamp;
use timingwheel::TimingWheel;
use timingwheel_durable::{Answer, Cancelled, Durable, PostgresStore, Run};
use tokio_postgres::Client;

use crate::instance::Nothing;
use crate::server::Server;

/// Timers that are due in a second, and for how many seconds.
const RATE: i64 = 1_000;
const SECONDS: i64 = 10;

/// So that it is renewed each second.
const LEASE: Duration = Duration::from_secs(3);

const CANCELS: usize = 5_000;

/// Of the calls of a handler: when, and for when, in microseconds.
type Calls = Arc<Mutex<Vec<(i64, i64)>>>;

pub(crate) struct SecondDay {
    half_ms: f64,
    p99_ms: f64,
    dead: u64,
    start: Duration,
    cancels: Duration,
    least_margin: Duration,
    rejoined: u64,
}

async fn start(url: &str, calls: &Calls) -> Durable {
    let (store, calls) = (PostgresStore::connect(url).await.expect("a store"), Arc::clone(calls));
    let handler = move |_: Nothing, run: Run| {
        let called = (Timestamp::now().as_microsecond(), run.due.as_microsecond());
        calls.lock().expect("nobody panics").push(called);
        std::future::ready(Ok(Answer::Done))
    };
    Durable::builder(&TimingWheel::new(), store).lease(LEASE).on(handler).start().await.expect("a start")
}

/// So many timers, of which the first is due then, and each other a millisecond later. The instance is told.
fn stored(first_ms: i64, count: i64) -> String {
    format!(
        "insert into timingwheel.timers (shard, due_ms, number, first_ms, kind, payload) \
            select n & 63, {first_ms} + n, n, {first_ms} + n, 'nothing', '{{\"filler\":\"\"}}' \
            from generate_series(0, {count} - 1) n; \
        select pg_notify('timingwheel', n || ' {first_ms}'), pg_notify('timingwheel', n || ' ' || {first_ms} + {count}) \
            from generate_series(0, 63) n"
    )
}

impl SecondDay {
    pub(crate) async fn measure(server: &Server, sql: &Client, dead: u64) -> Self {
        let url = server.url("postgres");
        sql.batch_execute("truncate timingwheel.timers").await.expect("an empty table");
        let (half_ms, p99_ms) = lateness(&url, sql).await;
        let (cancels, least_margin, rejoined) = cancels(&url).await;
        let start = start_beside_a_snapshot(&url, sql, dead).await;
        Self { half_ms, p99_ms, dead, start, cancels, least_margin, rejoined }
    }
}

async fn lateness(url: &str, sql: &Client) -> (f64, f64) {
    let calls = Calls::default();
    let durable = start(url, &calls).await;
    let count = RATE * SECONDS;
    sql.batch_execute(&stored(Timestamp::now().as_millisecond() + 3_000, count)).await.expect("timers");
    let begin = Instant::now();
    while durable.stats().done < count.unsigned_abs() {
        assert!(begin.elapsed() < Duration::from_secs(120), "it does not end");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    durable.stop(LEASE).await;
    let calls = calls.lock().expect("nobody panics");
    let mut late: Vec<i64> = calls.iter().map(|(called, due)| called - due).collect();
    late.sort_unstable();
    assert!(late[0] >= 0, "none is early");
    let quantile = |percent: usize| late[(late.len() - 1) * percent / 100] as f64 / 1_000.0;
    (quantile(50), quantile(99))
}

/// How long they take, and how much of the lease was left at the worst moment.
async fn cancels(url: &str) -> (Duration, Duration, u64) {
    let durable = start(url, &Calls::default()).await;
    let keys: Vec<String> = (0..CANCELS).map(|key| format!("key {key}")).collect();
    let far = Timestamp::now() + Duration::from_secs(86_400);
    let nothing = Nothing { filler: String::new() };
    let saves = keys.iter().map(|key| durable.at(far, &nothing).key(key).save());
    assert!(join_all(saves).await.iter().all(Result::is_ok), "all are saved");
    let watched = durable.clone();
    let mut least = LEASE;
    let watch = async {
        loop {
            least = least.min(watched.stats().lease_margin);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let begin = Instant::now();
    let told = tokio::select! {
        told = join_all(keys.iter().map(|key| durable.cancel(key.as_str()))) => told,
        () = watch => unreachable!("it has no end"),
    };
    let took = begin.elapsed();
    assert!(told.iter().all(|told| matches!(told, Ok(Cancelled::Removed))), "all are removed");
    let rejoined = durable.stats().rejoined;
    durable.stop(LEASE).await;
    (took, least, rejoined)
}

/// From the start of an instance until a timer that is due has its handler called.
async fn start_beside_a_snapshot(url: &str, sql: &Client, dead: u64) -> Duration {
    let without_vacuum = "alter table timingwheel.timers set (autovacuum_enabled = off)";
    sql.batch_execute(without_vacuum).await.expect("a setting");
    sql.batch_execute(&stored(1_000, dead.cast_signed())).await.expect("timers");
    let old = crate::client(url).await;
    let look = "begin isolation level repeatable read; select count(*) from timingwheel.timers";
    old.batch_execute(look).await.expect("a look");
    sql.batch_execute("delete from timingwheel.timers").await.expect("they have ended");
    // An instance that ran before has moved the marks on.
    let before = start(url, &Calls::default()).await;
    let marks = "select count(low_ms) from timingwheel.shards where low_ms > 1000000000000";
    while sql.query_one(marks, &[]).await.expect("a count").get::<_, i64>(0) < 64 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    before.stop(LEASE).await;
    sql.batch_execute(&stored(Timestamp::now().as_millisecond(), 1)).await.expect("a timer");
    let (calls, begin) = (Calls::default(), Instant::now());
    let durable = start(url, &calls).await;
    while calls.lock().expect("nobody panics").is_empty() {
        assert!(begin.elapsed() < Duration::from_secs(120), "it is not called");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let took = begin.elapsed();
    durable.stop(LEASE).await;
    sql.batch_execute("alter table timingwheel.timers reset (autovacuum_enabled)").await.expect("a setting");
    took
}

impl fmt::Display for SecondDay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { half_ms, p99_ms, dead, start, cancels, least_margin, rejoined } = self;
        writeln!(
            f,
            "| ms of lateness p50, p99, one instance, {RATE} a second | | {half_ms:.1}, {p99_ms:.1} | 5, 50 |"
        )?;
        let start = start.as_secs_f64();
        writeln!(
            f,
            "| s from a start to a call, beside an old snapshot with {dead} deleted timers | | {start:.2} | 1 |"
        )?;
        let took = cancels.as_secs_f64();
        writeln!(f, "| s of {CANCELS} cancels at once | | {took:.2} | |")?;
        let margin = least_margin.as_secs_f64() / LEASE.as_secs_f64();
        writeln!(
            f,
            "| the least that was left of the lease meanwhile | its lease | {margin:.2} | above 0 |"
        )?;
        write!(f, "| leases lost meanwhile | | {rejoined} | 0 |")
    }
}
