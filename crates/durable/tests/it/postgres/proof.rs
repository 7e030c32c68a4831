//! Instances as processes on one database: one is killed again and again, one stopped past its lease and continued, one
//! behind a proxy that cuts, holds and delays; the database is restarted. One history of all, and one checker.

use std::process::Child;
use std::time::{Duration, Instant};

use timingwheel_durable::PostgresStore;

use super::child::{LEASE, setting};
use super::cluster::{Cluster, signal};
use super::proxy::Proxy;
use super::support::client;

/// How long the faults go on, and how many instances there are.
fn size() -> (Duration, usize) {
    (
        Duration::from_secs(setting("DURABLE_SECONDS", 4)),
        usize::try_from(setting("DURABLE_INSTANCES", 3)).expect("few"),
    )
}

#[test]
fn instances_that_are_killed_stopped_and_cut_off_lose_nothing_and_repeat_nothing_without_cause() {
    let ((time, count), cluster) = (size(), Cluster::new());
    let proxy = Proxy::start(cluster.server.port());
    let through = format!("postgres://postgres@127.0.0.1:{}/postgres", proxy.port());
    // One is killed every few seconds, one is stopped, one is cut off, and the others have no fault.
    let mut killed = cluster.instance(&cluster.url(), 1);
    let stopped = cluster.instance(&cluster.url(), 1);
    let cut = cluster.instance(&through, 1);
    let sound: Vec<Child> =
        (0..count.saturating_sub(2)).map(|_| cluster.instance(&cluster.url(), 2)).collect();
    cluster.until_it_works(sound.len() + 3);
    let begin = Instant::now();
    let (mut kills, mut stops) = (0, 0);
    let mut random = fastrand::Rng::new();
    while begin.elapsed() < time {
        std::thread::sleep(Duration::from_millis(1_500));
        killed.kill().expect("killed");
        killed.wait().expect("it ends");
        kills += 1;
        proxy.fault(["cut", "hold", "delay"][random.usize(..3)]);
        signal(&stopped, "STOP");
        std::thread::sleep(LEASE + Duration::from_millis(random.u64(200..1_200)));
        signal(&stopped, "CONT");
        stops += 1;
        proxy.fault("none");
        killed = cluster.instance(&cluster.url(), 1);
    }
    let all = [killed, stopped, cut].into_iter().chain(sound).collect();
    let found = cluster
        .check(all)
        .unwrap_or_else(|wrong| panic!("{} faults: {:?}", wrong.len(), &wrong[..wrong.len().min(5)]));
    assert!(found.saved > 200 && found.removed > 10 && found.moved > 10, "{found:?}");
    let history = cluster.history();
    let rejoined =
        history.lines().filter(|line| line.starts_with("left ") && !line.contains("rejoined 0")).count();
    assert!(rejoined > 0 && kills > 0 && stops > 0, "one that was stopped past its lease joins again");
}

#[test]
fn a_database_that_is_restarted_and_killed_delays_and_loses_nothing() {
    let mut cluster = Cluster::new();
    let instances: Vec<Child> = (0..2).map(|_| cluster.instance(&cluster.url(), 2)).collect();
    cluster.until_it_works(2);
    for how in ["stop", "kill"] {
        std::thread::sleep(Duration::from_secs(2));
        cluster.server.stop(how);
        // Also longer than the lease.
        std::thread::sleep(if how == "stop" { LEASE * 2 } else { Duration::from_millis(300) });
        cluster.server.run();
    }
    std::thread::sleep(Duration::from_secs(1));
    let found = cluster.check(instances).unwrap_or_else(|wrong| panic!("{wrong:?}"));
    assert!(found.saved > 100, "{found:?}");
}

/// The tables with the fences of load, begin and settle taken out.
fn without_fences() -> String {
    let mut tables = PostgresStore::tables().to_owned();
    for fence in [
        "\n        from timingwheel.shards o where o.epoch = p_epoch\n",
        "and s.epoch = p_epoch\n        order by s.shard for share",
        "                and (m.begun_by is null or m.begun_by = p_epoch or not timingwheel.lives(m.begun_by))\n",
        "and m.begun_by = p_epoch and m.attempts = a.attempt",
    ] {
        assert!(tables.contains(fence), "{fence}");
        let left = if fence.contains("shards o") { " from timingwheel.shards o " } else { " " };
        tables = tables.replace(fence, left);
    }
    tables
}

#[test]
fn without_the_fence_the_checker_sees_faults() {
    let cluster = Cluster::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let sql = client(&cluster.url()).await;
        sql.batch_execute(&without_fences()).await.expect("tables without fences");
    });
    let instances: Vec<Child> = (0..2).map(|_| cluster.instance(&cluster.url(), 2)).collect();
    cluster.until_it_works(2);
    std::thread::sleep(Duration::from_secs(2));
    let wrong = cluster.check(instances).expect_err("without the fence it goes wrong");
    assert!(wrong.iter().any(|fault| fault.contains("twice without cause")), "{wrong:?}");
}
