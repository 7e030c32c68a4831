//! Very many timers that are due at once, where the database has no statistics of them, or such as mislead it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use timingwheel_durable::store::{Ask, Begun, Change, Ended, Settled, Store, ToBegin};
use timingwheel_durable::tokio_postgres::NoTls;
use timingwheel_durable::{Answer, Kind, Place, PostgresOptions, PostgresStore, Run};

use super::server::database;
use super::support::{GUARD, Tick, builder, client, soon, store, until};

#[tokio::test]
async fn a_begin_looks_each_timer_up_also_where_the_table_has_no_statistics() {
    let url = database().await;
    // A plan that compares each timer of the batch with all of its shards takes far longer than this.
    let options = PostgresOptions::new(&url).expect("an address").timeout(GUARD);
    let store = PostgresStore::connect_with(options, NoTls).await.expect("a store");
    let owner = store.join(Duration::from_secs(600), true).await.expect("a join");
    let other = store.join(Duration::from_secs(600), true).await.expect("a join");
    store.renew(owner, None).await.expect("a renewal");
    let sql = client(&url).await;
    let stored = "alter table timingwheel.timers set (autovacuum_enabled = off);
        insert into timingwheel.timers (shard, due_ms, number, first_ms, kind, payload)
        select n & 63, 1000 + n / 64, n, 1000 + n / 64, 'tick', '{}' from generate_series(1, 400000) n";
    sql.batch_execute(stored).await.expect("timers");
    let kinds = Arc::new(BTreeSet::from([Tick::KIND.to_owned()]));
    let ask = Ask { after: Place::FIRST, until: soon(0), limit: 10_000, kinds: kinds.clone() };
    let timers = store.load(owner, ask).await.expect("a load").timers;
    assert_eq!(timers.len(), 10_000);
    let begun = store.begin(owner, ToBegin { timers, kinds }).await.expect("a begin");
    assert!(begun.iter().all(|begun| matches!(begun, Begun::Yours(_))));
    store.leave(other).await.expect("a leave");
}

#[tokio::test]
async fn a_settle_looks_each_timer_up_also_where_statistics_say_that_nothing_has_begun() {
    const DUE: u16 = 8_000;
    let url = database().await;
    let options = PostgresOptions::new(&url).expect("an address").timeout(GUARD);
    let store = PostgresStore::connect_with(options, NoTls).await.expect("a store");
    let owner = store.join(Duration::from_secs(600), true).await.expect("a join");
    store.renew(owner, None).await.expect("a renewal");
    let sql = client(&url).await;
    let stored = "alter table timingwheel.timers set (autovacuum_enabled = off);
        insert into timingwheel.timers (shard, due_ms, number, first_ms, kind, payload)
        select n & 63, due, n, due, 'tick', '{}'
        from (select n, case when n <= 8000 then 1000 + n else 4102444800000 + n end as due
              from generate_series(1, 28000) n) timers;
        analyze timingwheel.timers";
    sql.batch_execute(stored).await.expect("timers");
    let kinds = Arc::new(BTreeSet::from([Tick::KIND.to_owned()]));
    let ask = Ask { after: Place::FIRST, until: soon(0), limit: DUE.into(), kinds: kinds.clone() };
    let timers = store.load(owner, ask).await.expect("a load").timers;
    let begun = store.begin(owner, ToBegin { timers, kinds }).await.expect("a begin");
    // The server's processes tell what they have done a little later.
    let lookups = async || -> i64 {
        let ask = "select idx_scan from pg_stat_user_indexes where indexrelname = 'timers_pkey'";
        sql.query_one(ask, &[]).await.expect("a count").get(0)
    };
    until("the begin has looked each up", async || lookups().await >= i64::from(DUE)).await;
    let before = lookups().await;
    let ends = begun.into_iter().map(|begun| {
        let Begun::Yours(stored) = begun else { panic!("{begun:?}") };
        Ended { timer: stored.timer, attempt: stored.attempts, version: 0, change: Change::Delete }
    });
    let settled = store.settle(owner, ends.collect()).await.expect("a settle");
    assert_eq!(settled.len(), usize::from(DUE));
    assert!(settled.iter().all(|settled| matches!(settled, Settled::Done)), "{:?}", settled[0]);
    until("the settle has looked each up", async || lookups().await >= before + i64::from(DUE)).await;
}

#[tokio::test]
async fn so_many_of_a_kind_run_at_once_in_all_instances() {
    const PLACES: usize = 5;
    let (url, running) = (database().await, Arc::new(Mutex::new((0, 0, 0))));
    let mut instances = Vec::new();
    for _ in 0..3 {
        let noted = running.clone();
        let handler = move |_: Tick, _: Run| {
            let noted = noted.clone();
            async move {
                {
                    let (now, most, all) = &mut *noted.lock().unwrap();
                    (*now, *all) = (*now + 1, *all + 1);
                    *most = (*now).max(*most);
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
                noted.lock().unwrap().0 -= 1;
                Ok(Answer::Done)
            }
        };
        let builder = builder(store(&url).await, GUARD).on(handler).concurrency_in_all::<Tick>(PLACES);
        instances.push(builder.start().await.expect("an instance"));
    }
    until("all have a part", async || instances.iter().all(|one| (21..=22).contains(&one.stats().shards.0)))
        .await;
    let due = soon(0);
    for n in 0..60 {
        instances[n % 3].at(due, &Tick::new("")).save().await.expect("a save");
    }
    until("all have run", async || running.lock().unwrap().2 == 60).await;
    let most = running.lock().unwrap().1;
    assert!((2..=PLACES).contains(&most), "{most} ran at once");
    for instance in instances {
        instance.stop(GUARD).await;
    }
}
