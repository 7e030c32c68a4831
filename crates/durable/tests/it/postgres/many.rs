//! Very many timers that are due at once, where the database has no statistics of them, or such as mislead it.

use std::time::Duration;

use jiff::SignedDuration;
use timingwheel_durable::store::{Ask, Begun, Change, Ended, NewTimer, Owner, Settled, Store, ToBegin};
use timingwheel_durable::tokio_postgres::{Client, IsolationLevel, NoTls};
use timingwheel_durable::{Kind, Place, PostgresOptions, PostgresStore, TimerId};

use super::server::database;
use super::support::{GUARD, Tick, client, soon, store, ticks, until};

#[tokio::test]
async fn a_begin_looks_each_timer_up_also_where_the_table_has_no_statistics() {
    let url = database().await;
    // A plan that compares each timer of the batch with all of its shards takes far longer than this.
    let options = PostgresOptions::new(&url).expect("an address").timeout(GUARD);
    let store = PostgresStore::connect_with(options, NoTls).await.expect("a store");
    let owner = store.join(Duration::from_secs(600), ticks()).await.expect("a join");
    let other = store.join(Duration::from_secs(600), ticks()).await.expect("a join");
    store.renew(owner, None).await.expect("a renewal");
    let sql = client(&url).await;
    let stored = "alter table timingwheel.timers set (autovacuum_enabled = off);
        insert into timingwheel.timers (shard, due_ms, number, first_ms, kind, payload)
        select n & 63, 1000 + n / 64, n, 1000 + n / 64, 'tick', '{}' from generate_series(1, 400000) n";
    sql.batch_execute(stored).await.expect("timers");
    let kinds = ticks();
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
    let options = PostgresOptions::new(&url).expect("an address").timeout(GUARD).connections(2);
    let store = PostgresStore::connect_with(options, NoTls).await.expect("a store");
    let owner = store.join(Duration::from_secs(600), ticks()).await.expect("a join");
    store.renew(owner, None).await.expect("a renewal");
    let sql = client(&url).await;
    let stored = "alter table timingwheel.timers set (autovacuum_enabled = off);
        insert into timingwheel.timers (shard, due_ms, number, first_ms, kind, payload)
        select n & 63, due, n, due, 'tick', '{}'
        from (select n, case when n <= 8000 then 1000 + n else 4102444800000 + n end as due
              from generate_series(1, 28000) n) timers;
        analyze timingwheel.timers";
    sql.batch_execute(stored).await.expect("timers");
    let kinds = ticks();
    let ask = Ask { after: Place::FIRST, until: soon(0), limit: DUE.into(), kinds: kinds.clone() };
    let timers = store.load(owner, ask).await.expect("a load").timers;
    let begun = store.begin(owner, ToBegin { timers, kinds }).await.expect("a begin");
    // A process of the server tells what it has done with a later statement, a second after the last time or more.
    let lookups = async || -> i64 {
        for _ in 0..2 {
            store.get("nobody".into()).await.expect("an answer");
        }
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

/// How many pages a load reads.
async fn pages_of_a_load(sql: &Client, owner: Owner, after: Place) -> i64 {
    let load = format!(
        "explain (analyze, buffers) \
         select * from timingwheel.load({}, {}, 9223372036854775807, {}, 1000, '{{tick}}')",
        owner.epoch,
        after.due().as_millisecond(),
        soon(60_000).as_millisecond(),
    );
    let plan: Vec<String> =
        sql.query(&load, &[]).await.expect("a plan").iter().map(|row| row.get(0)).collect();
    // As `Buffers: shared hit=12 read=3`.
    let buffers = plan.iter().find(|line| line.contains("Buffers: ")).expect("buffers");
    let counts =
        buffers.split(' ').filter_map(|part| part.strip_prefix("hit=").or(part.strip_prefix("read=")));
    counts.map(|count| count.parse::<i64>().expect("a count")).sum()
}

#[tokio::test]
async fn beside_an_old_snapshot_a_start_reads_no_dead_rows_before_the_mark() {
    const DEAD: i64 = 100_000;
    let url = database().await;
    let first = store(&url).await;
    let owner = first.join(Duration::from_secs(600), ticks()).await.expect("a join");
    assert_eq!(first.renew(owner, None).await.expect("a renewal").low, None);
    let (sql, mut old) = (client(&url).await, client(&url).await);
    let old = old.build_transaction().isolation_level(IsolationLevel::RepeatableRead).start().await;
    let old = old.expect("a transaction");
    old.batch_execute("select from timingwheel.timers").await.expect("a snapshot");
    let dead = format!(
        "insert into timingwheel.timers (shard, due_ms, number, first_ms, kind, payload) \
         select n & 63, {0} + n, n, {0} + n, 'tick', '{{}}' from generate_series(1, {DEAD}) n; \
         delete from timingwheel.timers",
        soon(-86_400_000).as_millisecond()
    );
    sql.batch_execute(&dead).await.expect("dead rows");
    let ids: Vec<TimerId> = (0..64).map(|number| TimerId::new(soon(-1_000), 1 << 40 | number)).collect();
    first.save(ids.iter().map(|id| NewTimer::new(*id, Tick::KIND, b"{}")).collect()).await.expect("a save");
    let load = async |store: &PostgresStore, owner, after| {
        let ask = Ask { after, until: soon(0), limit: 1_000, kinds: ticks() };
        store.load(owner, ask).await.expect("a load").timers.len()
    };
    assert_eq!(load(&first, owner, Place::FIRST).await, 64);
    let low = first.renew(owner, None).await.expect("a renewal").low.expect("a mark");
    assert!(low <= ids[0].first_due() && low > soon(-120_000), "{low}");
    // Another one takes over, as after a crash or in a deploy.
    let second = store(&url).await;
    let next = second.join(Duration::from_secs(600), ticks()).await.expect("a join");
    first.leave(owner).await.expect("a leave");
    assert_eq!(second.renew(next, None).await.expect("a renewal").low, Some(low));
    let mark = Place::last_of(low - SignedDuration::from_millis(1));
    assert_eq!(load(&second, next, mark).await, 64);
    let from_first = pages_of_a_load(&sql, next, Place::FIRST).await;
    let from_mark = pages_of_a_load(&sql, next, mark).await;
    // A row's page is read for each dead entry, and a few pages of the index for each shard.
    assert!(from_first > DEAD / 100, "{from_first}: no dead rows were read");
    assert!(from_mark < 64 * 12, "{from_mark} pages, from the first place {from_first}");
    drop(old);
}

#[tokio::test]
async fn a_large_table_is_counted_from_a_sample_and_the_count_says_so() {
    const TIMERS: u32 = 70_000;
    let url = database().await;
    let store = store(&url).await;
    let sql = client(&url).await;
    // One on a page.
    let insert = format!(
        "alter table timingwheel.timers set (autovacuum_enabled = off, fillfactor = 10);
        alter table timingwheel.timers set unlogged;
        alter table timingwheel.timers alter column payload set storage plain;
        insert into timingwheel.timers (shard, due_ms, number, first_ms, kind, payload, begun_by)
        select n & 63, n, n, n, 'tick', convert_to(repeat('x', 900), 'UTF8'), case when n % 4 = 0 then 1 end
        from generate_series(1, {TIMERS}) n"
    );
    sql.batch_execute(&insert).await.expect("timers");
    let counts = store.count().await.expect("counts");
    assert!(counts.is_estimate, "{counts:?}");
    let near = |count: u64, part: u32| (f64::from(TIMERS) / f64::from(part) - count as f64).abs() < 3_000.0;
    assert!(near(counts.stored + counts.begun, 1) && near(counts.begun, 4), "{counts:?}");
    sql.batch_execute("truncate timingwheel.timers").await.expect("none");
    store.save(vec![NewTimer::new(TimerId::new(soon(0), 1), Tick::KIND, b"{}")]).await.expect("a save");
    let counts = store.count().await.expect("counts");
    assert_eq!((counts.stored, counts.begun, counts.buried, counts.is_estimate), (1, 0, 0, false));
}

#[tokio::test]
async fn functions_that_price_out_sequential_scans_take_no_parallel_workers() {
    let url = database().await;
    store(&url).await;
    // The price is above that from which the planner takes workers: two processes more for each renewal. Functions that compile
    // nothing look one row up.
    let taking = "select proname::text from pg_proc where pronamespace = 'timingwheel'::regnamespace
        and proconfig @> '{jit=off}'
        and not proconfig @> '{max_parallel_workers_per_gather=0}'";
    let taking = client(&url).await.query(taking, &[]).await.expect("names");
    let names: Vec<String> = taking.iter().map(|row| row.get(0)).collect();
    assert_eq!(names, [""; 0]);
}
