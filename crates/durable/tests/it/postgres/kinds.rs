//! Instances with different handlers on one schema: a timer is begun by one that can run it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use timingwheel_durable::store::{Ask, Begun, Near, NewTimer, Owner, Series, Store, ToBegin};
use timingwheel_durable::{Durable, Kind, Missed, Place, PostgresStore, Run, TimerId};
use tokio::time::{Instant, sleep};

use super::server::database;
use super::support::{Calls, GUARD, Tick, builder, client, overdue, soon, store, until};
use crate::every_store::kinds;

/// Whatever takes a third of it takes too long here.
const LEASE: Duration = Duration::from_secs(90);

/// A few seconds, on a machine that is busy.
const SOON: Duration = Duration::from_secs(15);

#[derive(Serialize, Deserialize)]
struct Tock {
    name: String,
}

impl Kind for Tock {
    const KIND: &'static str = "tock";
}

fn tock(name: impl Into<String>) -> Tock {
    Tock { name: name.into() }
}

/// An instance with a handler for tocks, and one for ticks if it is to have both.
async fn with_tocks(url: &str, lease: Duration, calls: &Calls, ticks: bool) -> Durable {
    let of_tocks = calls.handler();
    let mut builder = builder(store(url).await, lease)
        .on(move |Tock { name }, run: Run| of_tocks(Tick { name: format!("tock {name}") }, run));
    if ticks {
        builder = builder.on(calls.handler());
    }
    builder.start().await.expect("a start")
}

async fn with_ticks(url: &str, lease: Duration, calls: &Calls) -> Durable {
    builder(store(url).await, lease).on(calls.handler()).start().await.expect("a start")
}

/// Waits until each has its part of the shards, and has heard of all others.
async fn shared_out(instances: &[&Durable]) {
    let each = 64 / u32::try_from(instances.len()).expect("few");
    until("each has its shards", async || {
        instances.iter().all(|instance| instance.stats().shards.0.abs_diff(each) <= 1)
    })
    .await;
    // What they tell each other as they join.
    sleep(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn of_two_instances_with_different_handlers_each_timer_is_begun_by_the_one_that_has_its_handler() {
    let (url, calls) = (database().await, Calls::default());
    let (ticks, tocks) =
        (with_ticks(&url, LEASE, &calls).await, with_tocks(&url, LEASE, &calls, false).await);
    shared_out(&[&ticks, &tocks]).await;
    let begin = Instant::now();
    for count in 0..64 {
        // Saved by either, near and overdue, in shards of both.
        let by = if count % 2 == 0 { &ticks } else { &tocks };
        by.at(soon(count * 10), &Tick::new(format!("{count:02}"))).save().await.expect("a save");
        by.at(soon(count * 10 - 300), &tock(format!("{count:02}"))).save().await.expect("a save");
    }
    until("all are called", async || calls.all().len() >= 128).await;
    assert!(begin.elapsed() < SOON, "{:?}: some waited for a renewal", begin.elapsed());
    assert_eq!(calls.names().into_iter().collect::<BTreeSet<_>>().len(), 128, "each once");
    let mut of: BTreeMap<bool, BTreeSet<u64>> = BTreeMap::new();
    for (name, attempt, epoch) in calls.all() {
        assert_eq!(attempt, 1, "{name}");
        of.entry(name.starts_with("tock")).or_default().insert(epoch);
    }
    assert!(of.values().all(|epochs| epochs.len() == 1), "{of:?}");
    assert_eq!((ticks.stats().unhandled, tocks.stats().unhandled), (None, None));
    for instance in [ticks, tocks] {
        instance.stop(GUARD).await;
    }
}

#[tokio::test]
async fn timers_of_a_new_kind_run_while_old_instances_are_still_there() {
    let (url, calls) = (database().await, Calls::default());
    let old = [with_ticks(&url, LEASE, &calls).await, with_ticks(&url, LEASE, &calls).await];
    let saver = builder(store(&url).await, LEASE).start().await.expect("a start");
    for count in 0..40 {
        saver.at(soon(-60_000), &tock(format!("{count:02}"))).save().await.expect("a save");
    }
    shared_out(&[&old[0], &old[1]]).await;
    assert_eq!(calls.names(), [""; 0], "nobody has a handler");
    let begin = Instant::now();
    let new = with_tocks(&url, LEASE, &calls, true).await;
    until("all have run", async || calls.all().len() == 40).await;
    assert!(begin.elapsed() < SOON, "{:?}: they waited for an old instance", begin.elapsed());
    // An old one that stops hands its shards over, and the new one goes on.
    let [first, second] = old;
    first.stop(GUARD).await;
    saver.at(soon(0), &tock("later")).save().await.expect("a save");
    saver.at(soon(0), &Tick::new("both")).save().await.expect("a save");
    until("these two have run", async || calls.all().len() == 42).await;
    for instance in [second, new, saver] {
        instance.stop(GUARD).await;
    }
}

#[tokio::test]
async fn when_the_instance_of_a_handler_dies_another_one_that_has_it_begins_its_timers() {
    let (url, calls) = (database().await, Calls::default());
    let lease = Duration::from_secs(3);
    let ticks = with_ticks(&url, lease, &calls).await;
    let (dies, takes_over) = (store(&url).await, with_tocks(&url, lease, &calls, false).await);
    // It never renews.
    let dead = dies.join(lease, kinds(&[Tock::KIND])).await.expect("a join");
    sleep(Duration::from_secs(1)).await;
    // Of the owner's shards that lack the kind, half are the turn of the dead one.
    for count in 0..64 {
        ticks.at(soon(100), &tock(format!("{count:02}"))).save().await.expect("a save");
    }
    until("all have run", async || calls.all().len() == 64).await;
    let sql = client(&url).await;
    let epoch = dead.epoch.cast_signed();
    let rows = sql.query("select from timingwheel.instances where epoch = $1", &[&epoch]).await;
    assert!(rows.expect("rows").is_empty(), "it is found dead");
    assert!(calls.all().iter().all(|(_, attempt, _)| *attempt == 1));
    for instance in [ticks, takes_over] {
        instance.stop(GUARD).await;
    }
}

/// An instance by hand.
struct Hand {
    store: PostgresStore,
    owner: Owner,
    kinds: BTreeSet<&'static str>,
}

impl Hand {
    async fn join(url: &str, names: &[&'static str]) -> Self {
        let store = store(url).await;
        let owner = store.join(LEASE, kinds(names)).await.expect("a join");
        store.renew(owner, None).await.expect("a renewal");
        Self { store, owner, kinds: names.iter().copied().collect() }
    }

    fn names(&self) -> Vec<&'static str> {
        self.kinds.iter().copied().collect()
    }

    async fn load(&self) -> Vec<Near> {
        let ask = Ask { after: Place::FIRST, until: soon(0), limit: 10_000, kinds: kinds(&self.names()) };
        let loaded = self.store.load(self.owner, ask).await.expect("a load");
        assert!(!loaded.lost);
        loaded.timers
    }

    async fn begin(&self, timers: Vec<Near>) -> Vec<Begun> {
        let ask = ToBegin { timers, kinds: kinds(&self.names()) };
        self.store.begin(self.owner, ask).await.expect("a begin")
    }
}

/// Timers of three kinds, a few in each shard.
async fn stored(store: &PostgresStore) -> BTreeMap<Near, &'static str> {
    let timers: BTreeMap<TimerId, &str> = (0..600)
        .map(|number| {
            (
                TimerId::new(soon(-60_000), 1 << 40 | number),
                ["one", "two", "three"][(number / 64 % 3) as usize],
            )
        })
        .collect();
    let new = timers.iter().map(|(id, kind)| NewTimer::new(*id, *kind, b"null"));
    store.save(new.collect()).await.expect("a save");
    timers.into_iter().map(|(id, kind)| (Near::from(id), kind)).collect()
}

#[tokio::test]
async fn whoever_joins_and_leaves_each_timer_is_loaded_by_one_instance_that_has_its_handler_if_there_is_one()
{
    let url = database().await;
    let timers = stored(&store(&url).await).await;
    let mut random = fastrand::Rng::with_seed(44);
    let mut hands: Vec<Hand> = Vec::new();
    for _ in 0..25 {
        if hands.len() == 5 || (random.u8(..3) == 0 && !hands.is_empty()) {
            let Hand { store, owner, .. } = hands.swap_remove(random.usize(..hands.len()));
            store.leave(owner).await.expect("a leave");
        } else {
            let some = ["one", "two", "three"].into_iter().filter(|_| random.bool()).collect::<Vec<_>>();
            if some.is_empty() {
                continue;
            }
            hands.push(Hand::join(&url, &some).await);
        }
        let mut loaded: BTreeMap<Near, usize> = BTreeMap::new();
        for hand in &hands {
            for near in hand.load().await {
                assert!(hand.kinds.contains(timers[&near]), "{near:?}");
                *loaded.entry(near).or_default() += 1;
            }
        }
        let handled: BTreeSet<&str> = hands.iter().flat_map(|hand| hand.kinds.iter().copied()).collect();
        for (near, kind) in &timers {
            let times = loaded.get(near).copied().unwrap_or(0);
            assert_eq!(times, usize::from(handled.contains(kind)), "{near:?} of kind {kind}");
        }
    }
}

#[tokio::test]
async fn of_helpers_that_begin_the_same_timers_at_a_time_one_has_each_and_the_owner_that_has_the_handler_all()
{
    let url = database().await;
    let timers = stored(&store(&url).await).await;
    let of = |wanted: &str| -> Vec<Near> {
        timers.iter().filter(|(_, kind)| **kind == wanted).map(|(near, _)| *near).collect()
    };
    let owner = Hand::join(&url, &["one"]).await;
    let helpers = [
        Hand::join(&url, &["two"]).await,
        Hand::join(&url, &["two"]).await,
        Hand::join(&url, &["two", "one"]).await,
    ];
    let answers = futures::future::join_all(helpers.iter().map(|helper| helper.begin(of("two")))).await;
    for (n, near) in of("two").into_iter().enumerate() {
        let begun = answers.iter().filter(|answers| matches!(answers[n], Begun::Yours(_))).count();
        assert_eq!(begun, 1, "{near:?}");
    }
    // Again, as after an answer that was lost.
    for (helper, before) in helpers.iter().zip(&answers) {
        for (before, again) in before.iter().zip(helper.begin(of("two")).await) {
            let [before, again] = [before, &again].map(|begun| matches!(begun, Begun::Yours(_)));
            assert_eq!(before, again);
        }
    }
    // In the shards of an owner with a handler nobody else begins.
    let (sql, epoch) = (client(&url).await, owner.owner.epoch.cast_signed());
    let rows = sql.query("select shard from timingwheel.shards where epoch = $1", &[&epoch]).await;
    let shards: BTreeSet<i16> = rows.expect("rows").iter().map(|row| row.get(0)).collect();
    let owned: Vec<Near> = of("one")
        .into_iter()
        .filter(|near| i16::try_from(near.id().unique() % 64).is_ok_and(|shard| shards.contains(&shard)))
        .collect();
    let refused = helpers[2].begin(owned.clone()).await;
    assert!(!owned.is_empty() && refused.iter().all(|begun| *begun == Begun::Gone), "{refused:?}");
    // One that is none any more.
    helpers[1].store.leave(helpers[1].owner).await.expect("a leave");
    assert!(helpers[1].begin(of("two")).await.iter().all(|begun| *begun == Begun::Lost));
}

#[tokio::test]
async fn a_timer_is_unhandled_only_while_no_instance_that_lives_has_its_handler() {
    let url = database().await;
    let timers = stored(&store(&url).await).await;
    let unhandled = async |hand: &Hand| -> BTreeSet<&str> {
        let told = overdue(&hand.store, hand.owner, kinds(&hand.names())).await;
        told.iter()
            .map(|overdue| *timers.get(&overdue.timer).filter(|_| !overdue.is_handled).expect("unhandled"))
            .collect()
    };
    let one = Hand::join(&url, &["one"]).await;
    assert_eq!(unhandled(&one).await, BTreeSet::from(["two", "three"]));
    let two = Hand::join(&url, &["two"]).await;
    for hand in [&one, &two] {
        assert_eq!(unhandled(hand).await, BTreeSet::from(["three"]));
    }
    two.store.leave(two.owner).await.expect("a leave");
    assert_eq!(unhandled(&one).await, BTreeSet::from(["two", "three"]));
}

#[tokio::test]
async fn a_look_at_the_series_reads_those_of_its_own_shards_and_no_payloads() {
    let url = database().await;
    let series = |number: u64| NewTimer {
        key: Some(number.to_string()),
        series: Some(Series::new("cron 0 9 * * * in UTC".into(), Missed::once())),
        payload: vec![b'0'; 10_000],
        ..NewTimer::new(TimerId::new(soon(3_600_000), 1 << 40 | number), "one", [])
    };
    store(&url).await.save((0..200).map(series).collect()).await.expect("a save");
    let both = [Hand::join(&url, &["one"]).await, Hand::join(&url, &["one"]).await];
    let mut seen = BTreeSet::new();
    for Hand { store, owner, .. } in &both {
        store.renew(*owner, None).await.expect("a renewal");
        let mut after = Place::FIRST;
        loop {
            let page = store.series(*owner, after, 30).await.expect("series");
            let Some(last) = page.last() else { break };
            after = last.timer.place();
            for stored in &page {
                assert!(store.is_mine(*owner, stored.timer) && stored.payload.is_empty(), "{stored:?}");
                assert!(seen.insert(stored.timer) && stored.series.is_some(), "{stored:?}");
            }
        }
    }
    assert_eq!(seen.len(), 200);
}

#[tokio::test]
async fn a_series_whose_rule_its_owner_cannot_read_is_begun_by_another_instance_and_plain_timers_are_not() {
    let url = database().await;
    let series = |number: u64| NewTimer {
        key: Some(number.to_string()),
        series: Some(Series::new("cron 0 9 * * * in UTC".into(), Missed::once())),
        ..NewTimer::new(TimerId::new(soon(-60_000), 1 << 41 | number), "one", b"null")
    };
    let all = store(&url).await;
    all.save((0..64).map(series).collect()).await.expect("a save");
    stored(&all).await;
    let hands = [
        Hand::join(&url, &["one"]).await,
        Hand::join(&url, &["one"]).await,
        Hand::join(&url, &["one", "two"]).await,
    ];
    let renew = async || {
        for Hand { store, owner, .. } in &hands {
            store.renew(*owner, None).await.expect("a renewal");
        }
    };
    // Those of its own that are no series, and series.
    let loads = async |hand: &Hand| {
        let (series, plain): (Vec<Near>, Vec<Near>) =
            hand.load().await.into_iter().partition(|near| near.id().unique() >= 1 << 41);
        (series, plain)
    };
    renew().await;
    let (own, before) = loads(&hands[2]).await;
    // The first two cannot, so the third one helps with all their series, and with nothing else.
    for Hand { store, owner, .. } in &hands[..2] {
        store.cannot_read(*owner, "one");
    }
    renew().await;
    let (series, plain) = loads(&hands[2]).await;
    assert_eq!((series.len(), plain), (64, before));
    let others: Vec<Near> = series.into_iter().filter(|near| !own.contains(near)).take(10).collect();
    let begun = hands[2].begin(others.clone()).await;
    assert!(begun.len() == 10 && begun.iter().all(|begun| matches!(begun, Begun::Yours(_))), "{begun:?}");
    // Nobody can: nobody helps.
    hands[2].store.cannot_read(hands[2].owner, "one");
    renew().await;
    assert_eq!(loads(&hands[2]).await.0, own);
}
