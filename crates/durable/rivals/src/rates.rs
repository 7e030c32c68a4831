//! Jobs a second, of drains.

use std::time::{Duration, Instant};

use tokio_postgres::{Client, NoTls};

use crate::instance::Instance;
use crate::rivals::{Setup, Who};
use crate::server::Server;
use crate::{Scale, median};

pub(crate) const INSTANCES: usize = 4;

/// Longer than any drain takes.
const GUARD: Duration = Duration::from_secs(600);

/// Jobs a second of each, by rounds.
pub(crate) struct Drains {
    counts: [u64; 3],
    rates: [Vec<f64>; 3],
    idle: [f64; 3],
}

/// A new database, and four instances that have nothing to do.
pub(crate) async fn stand(server: &Server, who: Who, setup: Setup) -> (Client, Vec<Instance>) {
    let admin = client(&server.url("postgres")).await;
    let name = who.name();
    admin.batch_execute(&format!("drop database if exists {name} with (force)")).await.expect("a drop");
    admin.batch_execute(&format!("create database {name}")).await.expect("a database");
    let url = server.url(name);
    let instances = (0..INSTANCES).map(|_| Instance::start(who, setup, &url)).collect();
    // What they do first is done by then.
    tokio::time::sleep(Duration::from_secs(1)).await;
    (client(&url).await, instances)
}

async fn client(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("a connection");
    tokio::spawn(connection);
    client
}

pub(crate) fn handled(instances: &[Instance]) -> u64 {
    instances.iter().map(Instance::count).sum()
}

/// Transactions a minute and instance while there is nothing to do.
async fn idle(server: &Server, who: Who, scale: Scale) -> f64 {
    let (sql, _instances) = stand(server, who, Setup::Tuned).await;
    let ask = "select xact_commit::float8 from pg_stat_database where datname = current_database()";
    // Each process tells its own, a second after it ended one at the latest.
    let count = async || -> f64 { sql.query_one(ask, &[]).await.expect("a count").get(0) };
    let (before, begin) = (count().await, Instant::now());
    tokio::time::sleep(scale.drain).await;
    let minutes = begin.elapsed().as_secs_f64() / 60.0;
    // One is the question.
    ((count().await - before - 1.0) / minutes / INSTANCES as f64).max(0.0)
}

/// How long four instances take for so many jobs that are due.
async fn drain(server: &Server, who: Who, count: u64) -> Duration {
    let (sql, instances) = stand(server, who, Setup::Tuned).await;
    sql.batch_execute(&who.store(count, "now()", 0.0)).await.expect("jobs");
    let begin = Instant::now();
    // Nobody asks the database before there is a chance.
    while handled(&instances) < count || has_some(&sql, who).await {
        assert!(begin.elapsed() < GUARD, "{} does not end", who.name());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    begin.elapsed()
}

async fn has_some(sql: &Client, who: Who) -> bool {
    let ask = format!("select exists (select from {})", who.left());
    sql.query_one(&ask, &[]).await.expect("an answer").get(0)
}

pub(crate) async fn measure(server: &Server, scale: Scale) -> Drains {
    let mut drains = Drains { counts: [0; 3], rates: Default::default(), idle: [0.0; 3] };
    for who in Who::ALL {
        // As many as take that long, or nearly.
        let mut count = who.few();
        loop {
            let took = drain(server, who, count).await;
            println!("{}: {count} jobs took {:.2} s", who.name(), took.as_secs_f64());
            let rest = scale.drain.as_secs_f64() / took.as_secs_f64();
            if rest < 1.6 {
                break;
            }
            // Less than in proportion: some get slower the more there is.
            count = (count as f64 * rest.sqrt().clamp(1.5, 6.0)) as u64;
        }
        drains.counts[who.index()] = count;
        drains.idle[who.index()] = idle(server, who, scale).await;
    }
    for _ in 0..scale.rounds {
        for who in Who::ALL {
            let count = drains.counts[who.index()];
            let rate = count as f64 / drain(server, who, count).await.as_secs_f64();
            println!("{}: {rate:.0} jobs/s", who.name());
            drains.rates[who.index()].push(rate);
        }
    }
    drains
}

impl Drains {
    pub(crate) fn rate(&self, who: Who) -> f64 {
        median(self.rates[who.index()].clone())
    }

    pub(crate) fn print(&self) {
        for (who, target) in [(Who::Graphile, "2, 4"), (Who::Underway, "20, 50")] {
            let pairs = self.rates[Who::Ours.index()].iter().zip(&self.rates[who.index()]);
            let ratio = median(pairs.map(|(ours, theirs)| ours / theirs).collect());
            println!("| timers/s, four instances | {} | {ratio:.2} | {target} |", who.title(Setup::Tuned));
        }
        for who in Who::ALL {
            let (rate, count) = (self.rate(who), self.counts[who.index()]);
            println!("| timers/s, four instances, {}, of {count} | | {rate:.0} | |", who.title(Setup::Tuned));
            let idle = self.idle[who.index()];
            println!(
                "| transactions a minute and instance with nothing to do, {} | | {idle:.0} | |",
                who.title(Setup::Tuned)
            );
        }
    }
}
