//! Several instances on one database.

use std::time::Duration;

use timingwheel_durable::store::{
    Ask, Begun, Change, Ended, Near, NewTimer, Put, Settled, Standing, Store, ToBegin, Which,
};
use timingwheel_durable::{Cancelled, Kind, Moved, Place, PostgresError, PostgresStore, TimerId};
use tokio::task::spawn_blocking;

use super::proxy::before;
use super::server::database;
use super::support::{Calls, Tick, builder, client, instance, soon, store, ticks, until};

const LEASE: Duration = Duration::from_secs(30);

fn of_tick() -> timingwheel_durable::store::Kinds {
    [Tick::KIND.to_owned()].into_iter().collect::<std::collections::BTreeSet<_>>().into()
}

/// A timer of each shard, due now.
fn of_each_shard() -> Vec<NewTimer> {
    let timer = |shard| {
        NewTimer::new(
            TimerId::new(soon(-1_000), (1_u64 << 20) | shard),
            Tick::KIND,
            format!("{{\"name\":\"{shard}\"}}"),
        )
    };
    (0..64).map(timer).collect()
}

async fn load(store: &PostgresStore, owner: timingwheel_durable::store::Owner) -> Vec<Near> {
    let ask = Ask { after: Place::FIRST, until: soon(1_000), limit: 1_000, kinds: of_tick() };
    store.load(owner, ask).await.expect("a load").timers
}

#[tokio::test]
async fn instances_share_all_shards_evenly_as_they_join_leave_and_die() {
    let url = database().await;
    let stores = [store(&url).await, store(&url).await, store(&url).await];
    let mut owners = Vec::new();
    for store in &stores {
        owners.push(store.join(LEASE, ticks()).await.expect("a join"));
        for (store, owner) in stores.iter().zip(&owners) {
            let renewed = store.renew(*owner, None).await.expect("a renewal");
            let fair = 64 / u32::try_from(owners.len()).expect("few");
            assert!((fair..=fair + 1).contains(&renewed.shards.0), "{renewed:?} of {}", owners.len());
        }
    }
    let timers = of_each_shard();
    stores[0].save(timers.clone()).await.expect("a save");
    let mut seen = Vec::new();
    for (store, owner) in stores.iter().zip(&owners) {
        seen.extend(load(store, *owner).await.into_iter().map(Near::id));
    }
    seen.sort_unstable();
    let mut all: Vec<TimerId> = timers.iter().map(|timer| timer.id).collect();
    all.sort_unstable();
    assert_eq!(seen, all, "each timer is in a shard of one");

    stores[2].leave(owners[2]).await.expect("a leave");
    let of = async |index: usize| load(&stores[index], owners[index]).await.len();
    assert_eq!((of(0).await, of(1).await), (32, 32), "at once");

    // As if it had been silent for longer than its lease.
    let sql = client(&url).await;
    let silent = "update timingwheel.instances set expires_at = now() - interval '1 second' where epoch = $1";
    sql.execute(silent, &[&(owners[0].epoch.cast_signed())]).await.expect("an update");
    let renewed = stores[1].renew(owners[1], None).await.expect("a renewal");
    assert_eq!((renewed.standing, renewed.taken, renewed.shards), (Standing::Changed, 32, (64, 64)));
    assert_eq!(of(1).await, 64);
    let lost = stores[0].renew(owners[0], None).await.expect("a renewal");
    assert_eq!(lost.standing, Standing::Expired);
}

#[tokio::test]
async fn what_an_instance_has_begun_stays_its_own_when_the_shard_goes_to_another_that_joins() {
    let url = database().await;
    let (first, second) = (store(&url).await, store(&url).await);
    let owner = first.join(LEASE, ticks()).await.expect("a join");
    first.save(of_each_shard()).await.expect("a save");
    let timers = load(&first, owner).await;
    let ask = ToBegin { timers: timers.clone(), kinds: of_tick() };
    let begun = first.begin(owner, ask.clone()).await.expect("a begin");
    assert!(begun.iter().all(|begun| matches!(begun, Begun::Yours(_))), "{begun:?}");

    let other = second.join(LEASE, ticks()).await.expect("a join");
    assert_eq!(load(&second, other).await, [], "an attempt is under way for each");
    let answers = second.begin(other, ask).await.expect("a begin");
    assert!(answers.iter().all(|answer| *answer == Begun::Gone), "{answers:?}");
    let end = |timer| Ended { timer, attempt: 1, version: 0, change: Change::Delete };
    let ends: Vec<Ended> = timers.iter().copied().map(end).collect();
    let refused = second.settle(other, ends.clone()).await.expect("a settle");
    assert!(refused.iter().all(|answer| *answer == Settled::Fenced), "another has begun them: {refused:?}");
    let settled = first.settle(owner, ends).await.expect("a settle");
    assert!(settled.iter().all(|answer| *answer == Settled::Done), "{settled:?}");
}

#[tokio::test]
async fn a_begin_of_who_has_lost_the_shard_or_the_lease_begins_nothing() {
    let url = database().await;
    let (first, second) = (store(&url).await, store(&url).await);
    let owner = first.join(LEASE, ticks()).await.expect("a join");
    first.save(of_each_shard()).await.expect("a save");
    let timers = load(&first, owner).await;
    let ask = ToBegin { timers, kinds: of_tick() };
    let other = second.join(LEASE, ticks()).await.expect("a join");
    let answers = first.begin(owner, ask.clone()).await.expect("a begin");
    let begun = answers.iter().filter(|answer| matches!(answer, Begun::Yours(_))).count();
    assert_eq!(begun, 32, "those of the shards that stayed");
    assert_eq!(answers.iter().filter(|answer| **answer == Begun::Gone).count(), 32);

    let sql = client(&url).await;
    let silent = "update timingwheel.instances set expires_at = now() - interval '1 second' where epoch = $1";
    sql.execute(silent, &[&(owner.epoch.cast_signed())]).await.expect("an update");
    second.renew(other, None).await.expect("a renewal");
    let answers = first.begin(owner, ask).await.expect("a begin");
    assert!(answers.iter().all(|answer| *answer == Begun::Lost), "{answers:?}");
    assert_eq!(load(&second, other).await.len(), 64, "what the dead one had begun is attempted again");
}

#[tokio::test]
async fn a_timer_that_another_program_saves_for_a_moment_from_now_is_hinted_at() {
    let (url, calls) = (database().await, Calls::default());
    // Looks are far apart: without a hint the timer would be found after 200 seconds.
    let one = instance(&url, Duration::from_secs(600), &calls).await;
    let two = instance(&url, Duration::from_secs(600), &calls).await;
    until("both have their shards", async || {
        [&one, &two].iter().all(|instance| instance.stats().shards == (32, 64))
    })
    .await;
    // Both listen before anything is told.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let sql = client(&url).await;
    for count in 0..20 {
        let save = format!(
            "select timingwheel.save_timer(now() + interval '300 ms', 'tick', '{{\"name\": \"{count:02}\"}}')"
        );
        sql.batch_execute(&save).await.expect("a save");
    }
    until("all were called", async || calls.all().len() >= 20).await;
    // A far timer of whichever, moved to now by one that may not have it.
    let id = one.at(soon(86_400_000), &Tick::new("moved")).save().await.expect("a save");
    assert_eq!(two.reschedule(id, soon(0)).await.expect("a move"), Moved::Moved(id));
    until("it was called", async || calls.names().contains(&"moved".to_owned())).await;
    let id = two.at(soon(86_400_000), &Tick::new("never")).save().await.expect("a save");
    assert_eq!(one.cancel(id).await.expect("a cancel"), Cancelled::Removed);
    one.stop(Duration::from_secs(60)).await;
    two.stop(Duration::from_secs(60)).await;
}

#[tokio::test]
async fn without_hints_a_scan_finds_what_another_program_saves() {
    let (url, calls) = (database().await, Calls::default());
    let options = timingwheel_durable::PostgresOptions::new(&url).expect("an address").listen(false);
    let quiet = PostgresStore::connect_with(options, tokio_postgres::NoTls).await.expect("a store");
    let one = builder(quiet, Duration::from_secs(3)).on(calls.handler()).start().await.expect("a start");
    until("it has its shards", async || one.stats().shards == (64, 64)).await;
    let sql = client(&url).await;
    // Also one that was due before.
    for (due, name) in [("- interval '30 seconds'", "old"), ("+ interval '100 ms'", "new")] {
        let save = format!("select timingwheel.save_timer(now() {due}, 'tick', '{{\"name\": \"{name}\"}}')");
        sql.batch_execute(&save).await.expect("a save");
    }
    until("both were called", async || calls.all().len() >= 2).await;
    assert_eq!(calls.names(), ["new", "old"]);
    one.stop(Duration::from_secs(60)).await;
}

#[tokio::test]
async fn an_instance_that_has_lost_its_lease_joins_again_and_its_handlers_are_told() {
    let (url, calls) = (database().await, Calls::default());
    let (told, mut tells) = tokio::sync::mpsc::unbounded_channel();
    let noted = calls.clone();
    let one = builder(store(&url).await, Duration::from_secs(2))
        .on(move |tick: Tick, run: timingwheel_durable::Run| {
            let (told, noted) = (told.clone(), noted.clone());
            async move {
                noted.note(tick, &run);
                if run.attempt == 1 {
                    run.token().cancelled().await;
                    let _ = told.send(run.epoch);
                }
                Ok(timingwheel_durable::Answer::Done)
            }
        })
        .start()
        .await
        .expect("a start");
    one.at(soon(0), &Tick::new("held")).save().await.expect("a save");
    until("it runs", async || calls.all().len() == 1).await;
    // Somebody took it for dead.
    let sql = client(&url).await;
    sql.batch_execute("delete from timingwheel.instances").await.expect("a delete");
    let epoch = tells.recv().await.expect("it is told");
    until("it is attempted again", async || calls.all().len() == 2).await;
    let [(_, 1, first), (_, 2, second)] = calls.all()[..] else { panic!("{:?}", calls.all()) };
    assert!(first == epoch && second > first);
    until("it is done", async || one.count().await.expect("counts") == Default::default()).await;
    let stats = one.stats();
    assert_eq!((stats.rejoined, stats.fenced, stats.lost), (1, 1, false));
    one.stop(Duration::from_secs(60)).await;
}

#[tokio::test]
async fn a_begin_that_was_held_on_its_way_and_given_up_begins_nothing_when_it_arrives() {
    let (proxy, through) = before(&database().await).await;
    let options = timingwheel_durable::PostgresOptions::new(&through).expect("an address");
    let options = options.timeout(Duration::from_secs(1));
    let held = PostgresStore::connect_with(options, tokio_postgres::NoTls).await.expect("a store");
    let owner = held.join(LEASE, ticks()).await.expect("a join");
    held.renew(owner, None).await.expect("a renewal");
    held.save(of_each_shard()).await.expect("a save");
    let ask = ToBegin { timers: load(&held, owner).await, kinds: of_tick() };
    proxy.fault("hold");
    let error = held.begin(owner, ask.clone()).await.expect_err("no answer");
    assert!(matches!(error, PostgresError::TimedOut(_)) && PostgresStore::is_transient(&error), "{error}");
    proxy.fault("none");
    // It arrives before another connection is made.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let begun = held.begin(owner, ask).await.expect("a begin");
    let is_first = |begun: &Begun| matches!(begun, Begun::Yours(stored) if stored.attempts == 1);
    assert!(begun.iter().all(is_first), "{begun:?}");
    spawn_blocking(|| drop(proxy)).await.expect("an end");
}

#[tokio::test]
async fn tables_that_need_a_newer_program_are_refused_and_newer_ones_that_do_not_are_taken() {
    let url = database().await;
    drop(store(&url).await);
    let sql = client(&url).await;
    sql.batch_execute("update timingwheel.format set version = 5").await.expect("an update");
    drop(store(&url).await);
    sql.batch_execute("update timingwheel.format set oldest = 5").await.expect("an update");
    let error = PostgresStore::connect(&url).await.expect_err("a refusal");
    assert!(matches!(error, PostgresError::Format { oldest: 5, known: 4 }), "{error}");
}

#[tokio::test]
async fn two_that_create_the_tables_at_a_time_both_succeed_and_who_may_not_create_them_says_so() {
    let url = database().await;
    let options = timingwheel_durable::PostgresOptions::new(&url).expect("an address");
    let error = PostgresStore::connect_with(options.create(false), tokio_postgres::NoTls).await;
    assert!(matches!(error, Err(PostgresError::NoTables)), "{error:?}");
    let stores = futures::future::join_all((0..4).map(|_| PostgresStore::connect(&url))).await;
    assert!(stores.iter().all(Result::is_ok), "{stores:?}");
}

#[tokio::test]
async fn an_instance_with_nothing_to_do_makes_one_statement_for_each_third_of_its_lease() {
    let (url, calls) = (database().await, Calls::default());
    let one = instance(&url, Duration::from_secs(3), &calls).await;
    one.at(soon(86_400_000), &Tick::new("far")).save().await.expect("a save");
    until("it has its shards", async || one.stats().shards == (64, 64)).await;
    // What the first load and the hint's connection cause.
    let settled = one.stats().renewals + 2;
    until("it has settled", async || one.stats().renewals >= settled).await;
    let before = one.stats();
    until("it has renewed", async || one.stats().renewals >= before.renewals + 3).await;
    let after = one.stats();
    assert_eq!((after.loads, after.empty_scans), (before.loads, before.empty_scans));
    assert!(after.renewals <= before.renewals + 5, "{after:?}");
    one.stop(Duration::from_secs(60)).await;
}

#[tokio::test]
async fn a_cancel_of_what_another_instance_gives_back_has_removed_it() {
    let url = database().await;
    let first = store(&url).await;
    let owner = first.join(LEASE, ticks()).await.expect("a join");
    let timer = NewTimer { id: TimerId::new(soon(60_000), 1 << 20), ..of_each_shard().remove(0) };
    let near = Near::from(timer.id);
    first.save(vec![timer]).await.expect("a save");
    let begun = first.begin(owner, ToBegin { timers: vec![near], kinds: of_tick() }).await.expect("a begin");
    assert!(matches!(begun[0], Begun::Yours(_)), "{begun:?}");

    let other = builder(store(&url).await, LEASE).start().await.expect("a start");
    let cancel = tokio::spawn({
        let other = other.clone();
        async move { other.cancel(near.id()).await }
    });
    let which = || Which::Id(near.id());
    until("it is told", async || {
        first.get(which()).await.expect("a look").is_some_and(|timer| timer.cancelled)
    })
    .await;
    // As a runner does that stops before it has called the handler.
    let put = Put { timer: near, series: None, attempts: 0, error: None };
    let ended = Ended { timer: near, attempt: 1, version: 1, change: Change::Put(put) };
    assert_eq!(first.settle(owner, vec![ended]).await.expect("a settle"), [Settled::Done]);
    match cancel.await.expect("no panic").expect("a cancel") {
        Cancelled::Removed => {}
        // It did not wait so long, on a slow machine.
        Cancelled::Running(1) => {
            assert_eq!(other.cancel(near.id()).await.expect("a cancel"), Cancelled::Removed);
        }
        told => panic!("{told:?}"),
    }
    assert_eq!(first.get(which()).await.expect("a look"), None);
}

/// The lines of an error and of its causes.
fn lines(error: &(dyn std::error::Error + 'static)) -> Vec<String> {
    std::iter::successors(Some(error), |&error| error.source()).map(ToString::to_string).collect()
}

#[tokio::test]
async fn an_error_names_the_address_and_its_causes_say_why_it_was_not_reached() {
    for (url, expected) in [
        ("postgres://app:secret@localhost:1/shop", ["localhost:1/shop", "refused"]),
        ("postgres://app:secret@nobody.invalid/shop", ["nobody.invalid:5432/shop", "lookup"]),
    ] {
        let error = PostgresStore::connect(url).await.expect_err("nobody is there");
        let of_store = lines(&error);
        assert!(of_store[0].ends_with(&format!("the database at {}", expected[0])), "{of_store:?}");
        assert!(of_store.last().is_some_and(|why| why.contains(expected[1])), "{of_store:?}");
        let wrapped =
            timingwheel_durable::Error::Store { source: std::sync::Arc::new(error), is_transient: true };
        assert_eq!(lines(&wrapped), of_store, "the store's own");
        let told = of_store.concat();
        assert!(of_store.iter().all(|line| told.matches(line.as_str()).count() == 1), "{of_store:?}");
        assert!(!told.contains("secret"), "{of_store:?}");
    }
}

#[tokio::test]
async fn what_the_database_refuses_is_told_without_its_details_which_may_quote_a_payload() {
    let client = client(&database().await).await;
    let refused = "do $$ begin raise exception 'no' using detail = '4111 1111', hint = '4111'; end $$";
    let error = PostgresError::from(client.batch_execute(refused).await.expect_err("it raises"));
    assert_eq!(lines(&error), ["a call of the database failed: no (code P0001)"]);
}
