//! Very many timers that are due at once, before the database has statistics of them.

use std::collections::BTreeSet;
use std::time::Duration;

use timingwheel_durable::store::{Ask, Begun, Store, ToBegin};
use timingwheel_durable::tokio_postgres::NoTls;
use timingwheel_durable::{Kind, Place, PostgresOptions, PostgresStore};

use crate::server::database;
use crate::support::{GUARD, Tick, client, soon};

#[tokio::test]
async fn a_begin_looks_each_timer_up_also_where_the_table_has_no_statistics() {
    let url = database().await;
    // A plan that compares each timer of the batch with all of its shards takes far longer than this.
    let options = PostgresOptions::new(&url).expect("an address").timeout(GUARD);
    let store = PostgresStore::connect_with(options, NoTls).await.expect("a store");
    let owner = store.join(Duration::from_secs(600)).await.expect("a join");
    let other = store.join(Duration::from_secs(600)).await.expect("a join");
    store.renew(owner).await.expect("a renewal");
    let sql = client(&url).await;
    let stored = "alter table timingwheel.timers set (autovacuum_enabled = off);
        insert into timingwheel.timers (shard, due_ms, number, first_ms, kind, payload)
        select n & 63, 1000 + n / 64, n, 1000 + n / 64, 'tick', '{}' from generate_series(1, 400000) n";
    sql.batch_execute(stored).await.expect("timers");
    let kinds = std::sync::Arc::new(BTreeSet::from([Tick::KIND.to_owned()]));
    let ask = Ask { after: Place::FIRST, until: soon(0), limit: 10_000, kinds: kinds.clone() };
    let timers = store.load(owner, ask).await.expect("a load").timers;
    assert_eq!(timers.len(), 10_000);
    let begun = store.begin(owner, ToBegin { timers, kinds }).await.expect("a begin");
    assert!(begun.iter().all(|begun| matches!(begun, Begun::Yours(_))));
    store.leave(other).await.expect("a leave");
}
