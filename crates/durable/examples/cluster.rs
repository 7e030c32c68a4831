//! Who fires which timers when three instances share a database, and one is killed and one stopped?
//!
//! `cargo run --release -p timingwheel-durable-programs --features postgres --example cluster -- --short`
//!
//! This program starts a PostgreSQL of its own and three instances, as processes. Each second it shows what each of them
//! has. It kills one at random and starts it anew, and stops one for longer than its lease and lets it go on. Handlers note
//! each timer in a table, in the transaction that ends the timer. In the end each timer has to be there once, or the
//! program exits with 1. It needs the package `postgresql`, or `TIMINGWHEEL_POSTGRES`.

#[allow(dead_code, reason = "tests use the rest")]
#[path = "../tests/it/postgres/server.rs"]
mod server;

use std::collections::BTreeMap;
use std::env;
use std::error::Error;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use clap::Parser;
use deadpool_postgres::{Manager, Pool};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use timingwheel::TimingWheel;
use timingwheel_durable::tokio_postgres::{Client, NoTls, connect};
use timingwheel_durable::{Answer::Done, Durable, Kind, PostgresOptions, PostgresStore, Run};

#[derive(Parser)]
#[command(about = "Three instances on one PostgreSQL, of which one is killed and one stopped")]
struct Settings {
    /// How many timers there are.
    #[arg(long, default_value_t = 8_000)]
    timers: i32,
    /// For how many seconds they are due.
    #[arg(long, default_value_t = 40)]
    seconds: u64,
    /// How many milliseconds an instance may be silent.
    #[arg(long, default_value_t = 3_000)]
    lease: u64,
    /// Some seconds.
    #[arg(long)]
    short: bool,
    /// Is an instance of this name, on the database at this address.
    #[arg(long, hide = true, num_args = 2)]
    instance: Option<Vec<String>>,
}

#[derive(Serialize, Deserialize)]
struct Ring {
    number: i32,
}

impl Kind for Ring {
    const KIND: &'static str = "ring";
}

const NAMES: [&str; 3] = ["A", "B", "C"];

async fn client(url: &str) -> Result<Client, tokio_postgres::Error> {
    let (client, connection) = connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

async fn instance(url: &str, name: &str, lease: Duration) -> Result<(), Box<dyn Error>> {
    let store = PostgresStore::connect_with(PostgresOptions::new(url)?.name(name), NoTls).await?;
    let (url, name) = (url.to_owned(), name.to_owned());
    // So many handlers use the database at a time; the others wait for a connection.
    let pool = Pool::builder(Manager::new(url.parse()?, NoTls)).max_size(4).build()?;
    let handler = move |Ring { number }: Ring, run: Run| {
        let (pool, name) = (pool.clone(), name.clone());
        async move {
            let mut sql = pool.get().await?;
            let transaction = sql.transaction().await?;
            let late = i32::try_from(run.late.as_millis())?;
            let note = "insert into rings (number, instance, late_ms) values ($1, $2, $3)";
            transaction.execute(note, &[&number, &name, &late]).await?;
            run.finish_in(&transaction).await?;
            transaction.commit().await?;
            Ok(Done)
        }
    };
    let durable = Durable::builder(&TimingWheel::new(), store).lease(lease).on(handler).start().await?;
    // Until the parent closes the pipe.
    let mut end = [0];
    tokio::io::AsyncReadExt::read(&mut tokio::io::stdin(), &mut end).await?;
    durable.stop(Duration::from_secs(20)).await;
    Ok(())
}

fn spawn(url: &str, name: &str, lease: Duration) -> std::io::Result<Child> {
    Command::new(env::current_exe()?)
        .args(["--lease", &lease.as_millis().to_string(), "--instance", name, url])
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
}

fn signal(child: &Child, signal: &str) -> std::io::Result<()> {
    Command::new("kill").args([format!("-{signal}"), child.id().to_string()]).status().map(drop)
}

/// How many shards each of the names has, and how many timers it has rung.
async fn shares(sql: &Client) -> Result<BTreeMap<String, (i64, i64)>, tokio_postgres::Error> {
    let mut shares = BTreeMap::new();
    let statement = "select i.name, count(s.shard) from timingwheel.instances i \
        left join timingwheel.shards s using (epoch) group by i.name";
    for row in sql.query(statement, &[]).await? {
        shares.insert(row.get(0), (row.get(1), 0));
    }
    for row in sql.query("select instance, count(*) from rings group by instance", &[]).await? {
        shares.entry(row.get(0)).or_insert((0, 0)).1 = row.get(1);
    }
    Ok(shares)
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut settings = Settings::parse();
    if settings.short {
        (settings.timers, settings.seconds, settings.lease) = (1_200, 10, 1_000);
    }
    let lease = Duration::from_millis(settings.lease);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    if let Some([name, url]) = settings.instance.as_deref() {
        runtime.block_on(instance(url, name, lease))?;
        return Ok(ExitCode::SUCCESS);
    }
    let is_right = runtime.block_on(cluster(&settings, lease))?;
    Ok(if is_right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What happens to whom, and when it is over.
struct Fault {
    of: usize,
    until: Instant,
    is_kill: bool,
    /// When others had all of its shards.
    taken_after: Option<Duration>,
    since: Instant,
}

async fn cluster(settings: &Settings, lease: Duration) -> Result<bool, Box<dyn Error>> {
    let url = server::database().await;
    let store = PostgresStore::connect(&url).await?;
    let mut sql = client(&url).await?;
    sql.batch_execute(
        "create table rings (number int not null, instance text not null, late_ms int not null)",
    )
    .await?;
    let mut instances = Vec::new();
    for name in NAMES {
        instances.push(spawn(&url, name, lease)?);
    }
    let begin = Timestamp::now() + SignedDuration::from_secs(2);
    let transaction = sql.transaction().await?;
    for number in 0..settings.timers {
        let after = i64::from(number) * i64::try_from(settings.seconds)? * 1_000 / i64::from(settings.timers);
        store
            .save_in(&transaction, begin + SignedDuration::from_millis(after), &Ring { number })
            .save()
            .await?;
    }
    transaction.commit().await?;
    println!("{} timers for {} s, a lease of {lease:?}", settings.timers, settings.seconds);
    println!("| second | {:<19} | {:<19} | {:<19} |", NAMES[0], NAMES[1], NAMES[2]);
    let (mut faults, mut done): (Vec<Fault>, Vec<Fault>) = (Vec::new(), Vec::new());
    let (start, mut shown, mut next) = (Instant::now(), 0, 2 + fastrand::u64(..2));
    let limit = Duration::from_secs(settings.seconds) + lease * 4 + Duration::from_secs(120);
    loop {
        let left: i64 = sql.query_one("select count(*) from timingwheel.timers", &[]).await?.get(0);
        let shares = shares(&sql).await?;
        for fault in &mut faults {
            let has = shares.get(NAMES[fault.of]).is_some_and(|(shards, _)| *shards > 0);
            if !has && fault.taken_after.is_none() {
                fault.taken_after = Some(fault.since.elapsed());
            }
        }
        for index in (0..faults.len()).rev() {
            if Instant::now() >= faults[index].until && faults[index].taken_after.is_some() {
                let fault = faults.remove(index);
                if fault.is_kill {
                    instances[fault.of] = spawn(&url, NAMES[fault.of], lease)?;
                } else {
                    signal(&instances[fault.of], "CONT")?;
                }
                done.push(fault);
            }
        }
        if left == 0 || start.elapsed() > limit {
            break;
        }
        if start.elapsed().as_secs() > shown {
            shown = start.elapsed().as_secs();
            let cell = |index: usize| {
                let (shards, rings) = shares.get(NAMES[index]).copied().unwrap_or_default();
                let fault = faults.iter().find(|fault| fault.of == index);
                let state = fault.map_or("", |fault| if fault.is_kill { "killed" } else { "stopped" });
                format!("{shards:>2} shards {rings:>5} {state:<7}").replace("shards", "sh.")
            };
            println!("| {shown:>6} | {:<19} | {:<19} | {:<19} |", cell(0), cell(1), cell(2));
            // One at a time, so that somebody always has the timers.
            let is_time = shown >= next && shown < settings.seconds && faults.is_empty();
            if is_time {
                next = shown + 2 + fastrand::u64(..2);
                let (of, is_kill) = (fastrand::usize(..3), done.len() % 2 == 0);
                if is_kill {
                    instances[of].kill()?;
                    instances[of].wait()?;
                } else {
                    signal(&instances[of], "STOP")?;
                }
                let (since, until) = (Instant::now(), Instant::now() + lease.mul_f64(1.3));
                faults.push(Fault { of, until, is_kill, taken_after: None, since });
            }
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for fault in faults.iter().filter(|fault| !fault.is_kill) {
        signal(&instances[fault.of], "CONT")?;
    }
    for mut child in instances {
        drop(child.stdin.take());
        child.wait()?;
    }
    account(settings, &sql, &done, lease).await
}

async fn account(
    settings: &Settings,
    sql: &Client,
    faults: &[Fault],
    lease: Duration,
) -> Result<bool, Box<dyn Error>> {
    let statement = "select count(*), count(distinct number), \
        percentile_disc(0.5) within group (order by late_ms), max(late_ms) from rings";
    let row = sql.query_one(statement, &[]).await?;
    let (rings, numbers): (i64, i64) = (row.get(0), row.get(1));
    let (median, most): (Option<i32>, Option<i32>) = (row.get(2), row.get(3));
    println!();
    println!("timers            {:>8}", settings.timers);
    println!("rung              {numbers:>8}");
    println!("lost              {:>8}", i64::from(settings.timers) - numbers);
    println!("twice             {:>8}", rings - numbers);
    println!("median lateness   {:>5} ms", median.unwrap_or_default());
    println!("greatest lateness {:>5} ms", most.unwrap_or_default());
    for fault in faults {
        let what = if fault.is_kill { "killed" } else { "stopped" };
        let after = fault.taken_after.unwrap_or_default();
        let share = after.as_secs_f64() / lease.as_secs_f64();
        println!("{} was {what}: others had its shards after {share:.2} leases", NAMES[fault.of]);
    }
    let is_right = rings == numbers && numbers == i64::from(settings.timers) && faults.len() >= 2;
    println!("{}", if is_right { "\nWhat it means: each timer rang once." } else { "that is not right" });
    Ok(is_right)
}
