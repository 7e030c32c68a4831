//! Eight instances under all faults at a time: one is killed again and again, one stopped past its lease and continued, two
//! behind proxies that cut, hold and delay, two with clocks that are wrong and drift; the database is restarted, killed,
//! read-only and cut off from everybody, and an old transaction is open. `DURABLE_SECONDS=600` goes on for ten minutes.

use std::process::Child;
use std::time::{Duration, Instant};

use tokio_postgres::Client;

use super::child::{LEASE, setting};
use super::cluster::{Cluster, signal};
use super::proxy::Proxy;
use super::support::client;

/// What happens to the database, in turn.
const FAULTS: [&str; 5] = ["restarted", "read-only", "old transaction", "all connections ended", "killed"];

async fn reads_only(sql: &Client, is_on: bool) {
    let setting = format!("alter system set default_transaction_read_only = {is_on}");
    // The session itself goes on to write.
    for statement in ["set default_transaction_read_only = off", &setting, "select pg_reload_conf()"] {
        sql.batch_execute(statement).await.expect("a setting");
    }
}

/// One fault of the database, for a while.
fn fault(cluster: &mut Cluster, which: &str, runtime: &tokio::runtime::Runtime, random: &mut fastrand::Rng) {
    let moment = LEASE.mul_f64(0.2 + random.f64() * 1.3);
    let url = cluster.url();
    match which {
        "restarted" | "killed" => {
            cluster.server.stop(if which == "killed" { "kill" } else { "stop" });
            std::thread::sleep(moment);
            cluster.server.run();
        }
        "read-only" => runtime.block_on(async {
            let sql = client(&url).await;
            reads_only(&sql, true).await;
            tokio::time::sleep(moment).await;
            reads_only(&sql, false).await;
        }),
        "old transaction" => runtime.block_on(async {
            let sql = client(&url).await;
            let look = "begin isolation level repeatable read; select count(*) from timingwheel.timers";
            sql.batch_execute(look).await.expect("a look");
            tokio::time::sleep(moment).await;
        }),
        _ => runtime.block_on(async {
            let sql = client(&url).await;
            let end = "select pg_terminate_backend(pid) from pg_stat_activity
                where backend_type = 'client backend' and pid <> pg_backend_pid()";
            for _ in 0..5 {
                sql.batch_execute(end).await.expect("they are ended");
                tokio::time::sleep(moment / 5).await;
            }
        }),
    }
}

#[test]
fn eight_instances_under_all_faults_lose_nothing_and_repeat_nothing_without_cause() {
    let time = Duration::from_secs(setting("DURABLE_SECONDS", 4));
    let mut cluster = Cluster::new();
    let proxies = [Proxy::start(cluster.server.port()), Proxy::start(cluster.server.port())];
    let through =
        proxies.each_ref().map(|proxy| format!("postgres://postgres@127.0.0.1:{}/postgres", proxy.port()));
    let url = cluster.url();
    let mut killed = cluster.instance(&url, 1);
    let stopped = cluster.instance(&url, 1);
    let mut rest: Vec<Child> = through.iter().map(|url| cluster.instance(url, 1)).collect();
    // Ten seconds ahead and a tenth too fast; ten behind and a tenth too slow.
    rest.extend([(10_000, 100), (-10_000, -100)].map(|skew| cluster.skewed(&url, 1, Some(skew))));
    rest.extend([cluster.instance(&url, 1), cluster.instance(&url, 1)]);
    cluster.until_it_works(8);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let mut random = fastrand::Rng::new();
    // A short run takes some of them, each time others.
    let mut faults = FAULTS;
    random.shuffle(&mut faults);
    let (begin, mut rounds) = (Instant::now(), 0);
    while begin.elapsed() < time {
        killed.kill().expect("killed");
        killed.wait().expect("it ends");
        signal(&stopped, "STOP");
        for proxy in &proxies {
            proxy.fault(["cut", "hold", "delay", "none"][random.usize(..4)]);
        }
        fault(&mut cluster, faults[rounds % faults.len()], &runtime, &mut random);
        rounds += 1;
        killed = cluster.instance(&url, 1);
        // Past the lease, or not.
        std::thread::sleep(LEASE.mul_f64(random.f64()));
        signal(&stopped, "CONT");
        proxies.iter().for_each(|proxy| proxy.fault("none"));
        std::thread::sleep(LEASE.mul_f64(random.f64()));
    }
    let found = cluster
        .check([killed, stopped].into_iter().chain(rest).collect())
        .unwrap_or_else(|wrong| panic!("{} faults: {:?}", wrong.len(), &wrong[..wrong.len().min(5)]));
    eprintln!("{rounds} rounds in {:?}: {found:?}", begin.elapsed());
    assert!(found.saved > 200 && found.removed > 10 && found.moved > 10, "{found:?}");
}
