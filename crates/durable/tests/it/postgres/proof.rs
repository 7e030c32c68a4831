//! The checker of the histories of instances as processes: without the fences of the tables it sees faults.

use std::process::Child;
use std::time::Duration;

use timingwheel_durable::PostgresStore;

use super::cluster::Cluster;
use super::support::client;

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
