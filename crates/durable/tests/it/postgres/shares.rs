//! Shards of instances without handlers, and the scan of a renewal.

use std::collections::BTreeSet;
use std::time::Duration;

use timingwheel_durable::store::{Ask, Begun, NewTimer, Owner, Store, ToBegin};
use timingwheel_durable::tokio_postgres::NoTls;
use timingwheel_durable::{Health, Kind, Place, PostgresOptions, PostgresStore, TimerId};

use super::server::database;
use super::support::{Calls, Tick, builder, client, instance, overdue, soon, store, ticks, until};

const LEASE: Duration = Duration::from_secs(30);

#[tokio::test]
async fn an_instance_without_handlers_has_no_shards_and_its_timers_come_elsewhere() {
    let (url, calls) = (database().await, Calls::default());
    let saves = builder(store(&url).await, LEASE).start().await.expect("a start");
    until("it has renewed", async || saves.stats().renewals > 0).await;
    assert_eq!(saves.stats().shards, (0, 0));
    let works = instance(&url, LEASE, &calls).await;
    until("the other one has all shards", async || works.stats().shards == (64, 64)).await;
    for count in 0..70 {
        saves.at(soon(count), &Tick::new(count.to_string())).save().await.expect("a save");
    }
    until("all were called", async || calls.all().len() == 70).await;
    let symptoms = Health::new(LEASE).check(&saves.stats());
    assert_eq!(symptoms, []);
    // While nobody works the shards are nobody's.
    works.stop(Duration::from_secs(60)).await;
    saves.at(soon(0), &Tick::new("later")).save().await.expect("a save");
    let works = instance(&url, LEASE, &calls).await;
    until("it was called", async || calls.all().len() == 71).await;
    works.stop(Duration::from_secs(60)).await;
    saves.stop(Duration::from_secs(60)).await;
}

#[tokio::test]
async fn a_renewal_scans_from_when_it_is_told_and_without_that_not_at_all() {
    let url = database().await;
    let store = store(&url).await;
    let owner = store.join(LEASE, ticks()).await.expect("a join");
    let dues = [soon(-3_600_000), soon(-1_000), soon(60_000)];
    let timer = |(unique, due)| NewTimer::new(TimerId::new(due, unique), Tick::KIND, b"{}");
    store.save((1..).zip(dues).map(timer).collect()).await.expect("a save");
    for (from, first) in [(None, None), (Some(dues[0]), Some(dues[0])), (Some(soon(-60_000)), Some(dues[1]))]
    {
        let renewed = store.renew(owner, from).await.expect("a renewal");
        assert_eq!(renewed.first_due, first.map(|due| TimerId::new(due, 0).first_due()), "{from:?}");
    }
}

#[tokio::test]
async fn what_an_owner_has_begun_is_overdue_wherever_its_shard_is_now_and_hides_no_other_kind() {
    let url = database().await;
    let (first, second) = (store(&url).await, store(&url).await);
    let owner = joined(&first).await;
    let id = |unique| TimerId::new(soon(-600_000), unique);
    // More than an answer has.
    let ticks_of_all_shards = (0..6_400).map(|unique| NewTimer::new(id(unique), Tick::KIND, b"{}"));
    let timers: Vec<NewTimer> = ticks_of_all_shards
        .chain((6_400..6_464).map(|unique| NewTimer::new(id(unique), "nobody's", b"{}")))
        .collect();
    let nears = timers[..6_400].iter().map(|timer| timer.id.into()).collect();
    first.save(timers).await.expect("a save");
    let ask = ToBegin { timers: nears, kinds: ticks() };
    let begun = first.begin(owner, ask).await.expect("a begin");
    assert!(begun.iter().all(|begun| matches!(begun, Begun::Yours(_))));
    second.join(LEASE, ticks()).await.expect("a join");
    let overdue = overdue(&first, owner, ticks()).await;
    let (begun, others): (Vec<_>, Vec<_>) = overdue.into_iter().partition(|timer| timer.has_begun);
    let shards = begun.iter().map(|timer| timer.timer.id().unique() % 64).collect::<BTreeSet<_>>();
    assert_eq!((begun.len(), shards.len()), (6_400, 64), "in both owners' shards");
    assert_eq!(others.len(), 32, "of its own shards");
    assert!(others.iter().all(|timer| timer.kind == "nobody's" && !timer.is_handled));
}

#[tokio::test]
async fn an_instance_whose_join_nobody_heard_has_its_shards_for_seconds_and_not_for_a_lease() {
    let url = database().await;
    let (store, sql) = (store(&url).await, client(&url).await);
    let owner = store.join(LEASE, ticks()).await.expect("a join");
    let left = async || -> i32 {
        let left =
            "select extract(epoch from expires_at - clock_timestamp())::int from timingwheel.instances";
        sql.query_one(left, &[]).await.expect("an instance").get(0)
    };
    assert!(left().await <= 10, "until it renews");
    store.renew(owner, None).await.expect("a renewal");
    assert!(left().await > 10);
}

async fn with_shards(url: &str, shards: u32) -> PostgresStore {
    let options = PostgresOptions::new(url).and_then(|options| options.shards(shards)).expect("a number");
    PostgresStore::connect_with(options, NoTls).await.expect("a store")
}

/// An owner with its whole lease: the first one is short.
async fn joined(store: &PostgresStore) -> Owner {
    let owner = store.join(LEASE, ticks()).await.expect("a join");
    store.renew(owner, None).await.expect("a renewal");
    owner
}

#[tokio::test]
async fn a_schema_that_is_made_with_1024_shards_shares_them_out_among_100_instances() {
    const INSTANCES: usize = 100;
    let url = database().await;
    drop(with_shards(&url, 1_024).await);
    // Whoever comes later takes the number that is stored.
    let store = with_shards(&url, 64).await;
    let mut owners = Vec::new();
    for _ in 0..INSTANCES {
        owners.push(joined(&store).await);
    }
    let due = soon(-1_000);
    let mut ids = BTreeSet::new();
    let (mut all, mut loaded) = (0, BTreeSet::new());
    for (count, owner) in (0..).zip(&owners) {
        let (count_of, total) = store.renew(*owner, None).await.expect("a renewal").shards;
        assert!((10..=11).contains(&count_of) && total == 1_024, "{count_of} of {total}");
        all += count_of;
        // One in a shard of its own, and three anywhere.
        let kinds = [Tick::KIND, "other", "other", "other"];
        let timers: Vec<NewTimer> = (0..)
            .zip(kinds)
            .map(|(number, kind)| {
                let id = TimerId::new(due, store.number(*owner, count * 4 + number, due, kind));
                NewTimer::new(id, Tick::KIND, b"null")
            })
            .collect();
        assert!(store.is_mine(*owner, timers[0].id.into()));
        ids.extend(timers.iter().map(|timer| timer.id));
        store.save(timers).await.expect("a save");
    }
    assert_eq!((all, ids.len()), (1_024, INSTANCES * 4));
    for owner in &owners {
        let ask = Ask { after: Place::FIRST, until: soon(0), limit: 1_000, kinds: ticks() };
        let timers = store.load(*owner, ask).await.expect("a load").timers;
        loaded.extend(timers.iter().map(|near| near.id()));
        let begun = store.begin(*owner, ToBegin { timers, kinds: ticks() }).await.expect("a begin");
        assert!(begun.iter().all(|begun| matches!(begun, Begun::Yours(_))), "{begun:?}");
    }
    assert_eq!(loaded, ids);
    // In SQL too.
    let sql = client(&url).await;
    let last = "select max(timingwheel.shard_of(timingwheel.next_number())) from generate_series(1, 20000)";
    assert_eq!(sql.query_one(last, &[]).await.expect("a shard").get::<_, i16>(0), 1_023);
    for owner in owners.drain(..INSTANCES / 2) {
        store.leave(owner).await.expect("a leave");
    }
    let mut left = 0;
    for owner in owners {
        left += store.renew(owner, None).await.expect("a renewal").shards.0;
    }
    assert_eq!(left, 1_024, "of those that are left");
}

#[tokio::test]
async fn of_more_instances_than_shards_some_have_none_and_take_over_when_others_leave() {
    let url = database().await;
    let store = store(&url).await;
    let mut owners = Vec::new();
    for _ in 0..80 {
        owners.push(joined(&store).await);
    }
    let counts = async |owners: &[Owner]| {
        let mut counts = Vec::new();
        for owner in owners {
            counts.push(store.renew(*owner, None).await.expect("a renewal").shards.0);
        }
        counts.sort_unstable();
        counts
    };
    assert_eq!(counts(&owners).await, [vec![0; 16], vec![1; 64]].concat());
    for owner in owners.drain(..48) {
        store.leave(owner).await.expect("a leave");
    }
    assert_eq!(counts(&owners).await, [2; 32]);
}

#[tokio::test]
async fn a_number_of_shards_is_refused_with_what_is_allowed_and_never_changes_where_there_are_timers() {
    for count in [0, 1, 32, 65, 1_000, 2_048] {
        let error = PostgresOptions::new("postgres://a/d").and_then(|options| options.shards(count));
        let error = error.expect_err("a refusal").to_string();
        assert_eq!(
            error,
            format!("the number of shards must be a power of two from 64 to 1024, got {count}")
        );
    }
    let url = database().await;
    let sql = client(&url).await;
    let options = PostgresOptions::new(&url).expect("an address");
    sql.batch_execute(&options.migrations()[..2].concat()).await.expect("tables of format 2");
    let insert = "insert into timingwheel.timers (shard, due_ms, number, first_ms, kind, payload) \
        values (1000 & 63, 1, 1000, 1, 'tick', '{}')";
    sql.batch_execute(insert).await.expect("a timer");
    let store = with_shards(&url, 1_024).await;
    let owner = store.join(LEASE, ticks()).await.expect("a join");
    assert_eq!(store.renew(owner, None).await.expect("a renewal").shards, (64, 64));
    let ask = Ask { after: Place::FIRST, until: soon(0), limit: 9, kinds: ticks() };
    assert_eq!(store.load(owner, ask).await.expect("a load").timers.len(), 1);
}
