//! Timers whose rows a user's transaction has locked.

use std::sync::Arc;
use std::time::Duration;

use timingwheel_durable::store::{Ask, Begun, Near, NewTimer, Owner, Standing, Store, ToBegin};
use timingwheel_durable::{Answer, Cancelled, Kind, Place, PostgresStore, Run, TimerId};
use tokio::sync::Semaphore;

use super::server::database;
use super::support::{Calls, Tick, builder, client, soon, store, ticks, until};

const LEASE: Duration = Duration::from_secs(30);

/// A timer of each shard, due now, begun by an instance that has joined alone.
async fn begun(store: &PostgresStore) -> (Owner, ToBegin) {
    let owner = store.join(LEASE, ticks()).await.expect("a join");
    let timer = |shard| NewTimer::new(TimerId::new(soon(-1_000), (1_u64 << 20) | shard), Tick::KIND, b"{}");
    store.save((0..64).map(timer).collect()).await.expect("a save");
    let kinds: timingwheel_durable::store::Kinds = Arc::new([Tick::KIND.to_owned()].into());
    let ask = Ask { after: Place::FIRST, until: soon(1_000), limit: 1_000, kinds: Arc::clone(&kinds) };
    let timers: Vec<Near> = store.load(owner, ask).await.expect("a load").timers;
    let ask = ToBegin { timers, kinds };
    let begun = store.begin(owner, ask.clone()).await.expect("a begin");
    assert!(begun.len() == 64 && begun.iter().all(is_first), "{begun:?}");
    (owner, ask)
}

fn is_first(begun: &Begun) -> bool {
    matches!(begun, Begun::Yours(stored) if stored.attempts == 1)
}

#[tokio::test]
async fn a_begin_whose_answer_was_lost_is_answered_again_after_the_shard_has_moved_and_while_a_row_is_locked()
{
    let url = database().await;
    let (first, second) = (store(&url).await, store(&url).await);
    let (owner, ask) = begun(&first).await;
    second.join(LEASE, ticks()).await.expect("a join");
    let again = first.begin(owner, ask.clone()).await.expect("a begin");
    assert!(again.iter().all(is_first), "also where the shard is another's: {again:?}");

    let mut sql = client(&url).await;
    let transaction = sql.transaction().await.expect("a transaction");
    for timer in &ask.timers {
        let removal = second.cancel_in(&transaction, timer.id()).await.expect("a cancel");
        assert_eq!(removal, Cancelled::Running(1));
    }
    let locked = first.begin(owner, ask.clone()).await.expect("a begin");
    assert!(locked.iter().all(|begun| *begun == Begun::Locked), "{locked:?}");
    transaction.rollback().await.expect("a rollback");
    let again = first.begin(owner, ask).await.expect("a begin");
    assert!(again.iter().all(is_first), "{again:?}");
}

#[tokio::test]
async fn a_row_that_cannot_be_read_is_not_answered_as_locked_where_another_is_gone() {
    let url = database().await;
    let store = store(&url).await;
    let (owner, ask) = begun(&store).await;
    let number = |place: usize| ask.timers[place].id().unique();
    let change = format!(
        "update timingwheel.timers set failed = '{{null}}' where number = {}; \
            delete from timingwheel.timers where number = {}",
        number(0),
        number(1)
    );
    client(&url).await.batch_execute(&change).await.expect("a change");
    let again = store.begin(owner, ask).await.expect("a begin");
    assert_eq!(again[..2], [Begun::Gone, Begun::Gone]);
    assert!(again[2..].iter().all(is_first), "{again:?}");
}

#[tokio::test]
async fn an_instance_leaves_at_once_although_a_transaction_has_locked_what_it_has_begun() {
    let url = database().await;
    let (first, second) = (store(&url).await, store(&url).await);
    let (owner, ask) = begun(&first).await;
    let other = second.join(LEASE, ticks()).await.expect("a join");
    let mut sql = client(&url).await;
    let transaction = sql.transaction().await.expect("a transaction");
    let id = ask.timers[0].id();
    second.cancel_in(&transaction, id).await.expect("a cancel");
    assert_eq!(first.leave(owner).await.expect("a leave"), 63);
    let renewed = second.renew(other, None).await.expect("a renewal");
    assert_eq!((renewed.standing, renewed.shards), (Standing::Changed, (64, 64)));
    transaction.rollback().await.expect("a rollback");
    let begun = second.begin(other, ask).await.expect("a begin");
    let attempts = |begun: &Begun| if let Begun::Yours(stored) = begun { stored.attempts } else { 0 };
    assert!(begun.iter().all(|begun| attempts(begun) == 2), "{begun:?}");
}

#[tokio::test]
async fn an_instance_that_stops_while_it_renews_leaves_all_the_same() {
    let url = database().await;
    let one = builder(store(&url).await, Duration::from_secs(9)).start().await.expect("a start");
    let mut sql = client(&url).await;
    let transaction = sql.transaction().await.expect("a transaction");
    transaction.batch_execute("select from timingwheel.instances for update").await.expect("a lock");
    let other = client(&url).await;
    let waits = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()";
    // A change of what is paused makes all renew.
    one.pause("nothing").await.expect("a pause");
    until("it renews", async || other.query_one(waits, &[]).await.expect("a count").get::<_, i64>(0) > 0)
        .await;
    let stopping = tokio::spawn(async move { one.stop(Duration::ZERO).await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    transaction.rollback().await.expect("a rollback");
    stopping.await.expect("a stop");
    let left = other.query_one("select count(*) from timingwheel.instances", &[]).await.expect("a count");
    assert_eq!(left.get::<_, i64>(0), 0, "it has left");
}

#[tokio::test]
async fn an_open_cancel_of_timers_that_run_delays_their_results_and_no_others() {
    let (url, calls, ends) = (database().await, Calls::default(), Arc::new(Semaphore::new(0)));
    let (noted, waits) = (calls.clone(), Arc::clone(&ends));
    let one = builder(store(&url).await, Duration::from_secs(6))
        .on(move |tick: Tick, run: Run| {
            noted.note(tick, &run);
            let waits = Arc::clone(&waits);
            async move {
                waits.acquire().await?.forget();
                Ok(Answer::Done)
            }
        })
        .start()
        .await
        .expect("a start");
    let plan = || timingwheel_calendar::Periodic::seconds(86_400, soon(-86_399_000));
    let held = one.at(soon(0), &Tick::new("held")).save().await.expect("a save");
    one.at(soon(0), &Tick::new("other")).save().await.expect("a save");
    for name in ["held series", "other series"] {
        one.every(name, plan(), &Tick::new(name)).save().await.expect("a series");
    }
    until("all run", async || calls.all().len() == 4).await;
    let mut sql = client(&url).await;
    let transaction = sql.transaction().await.expect("a transaction");
    let other = store(&url).await;
    for removal in [
        other.cancel_in(&transaction, held).await.expect("a cancel"),
        other.cancel_in(&transaction, "held series").await.expect("a cancel"),
    ] {
        assert!(matches!(removal, Cancelled::Running(_)), "{removal:?}");
    }
    ends.add_permits(4);
    until("the results of the others are stored", async || one.stats().done == 2).await;
    // And it goes on.
    one.at(soon(0), &Tick::new("later")).save().await.expect("a save");
    ends.add_permits(1);
    until("one more is done", async || one.stats().done == 3).await;
    transaction.rollback().await.expect("a rollback");
    until("all are done", async || one.stats().done == 5).await;
    let stats = one.stats();
    assert_eq!((stats.fenced, stats.store_errors), (0, 0));
    one.stop(Duration::from_secs(60)).await;
}

#[tokio::test]
async fn a_cancel_and_a_move_by_key_find_what_a_replacement_puts_there_meanwhile() {
    let url = database().await;
    let other = store(&url).await;
    let (mut first, second) = (client(&url).await, client(&url).await);
    let mut told = Vec::new();
    for statement in ["timingwheel.move_timer('k', now())", "timingwheel.cancel_timer('k')"] {
        let far = soon(86_400_000);
        let mut sql = client(&url).await;
        let transaction = sql.transaction().await.expect("a transaction");
        let old = other.save_in(&transaction, far, &Tick::new("old")).key("k").replace();
        old.save().await.expect("a save");
        transaction.commit().await.expect("a commit");

        let transaction = first.transaction().await.expect("a transaction");
        let new = other.save_in(&transaction, far, &Tick::new("new")).key("k").replace();
        new.save().await.expect("a save");
        let asked = tokio::spawn({
            let (sql, statement) = (client(&url).await, format!("select {statement}"));
            async move { sql.query_one(&statement, &[]).await.expect("an answer").get::<_, String>(0) }
        });
        let waits = "select count(*) from pg_stat_activity \
            where datname = current_database() and wait_event_type = 'Lock'";
        until("it waits for the row", async || {
            second.query_one(waits, &[]).await.expect("a count").get::<_, i64>(0) == 1
        })
        .await;
        transaction.commit().await.expect("a commit");
        told.push(asked.await.expect("an answer"));
    }
    assert_eq!(told, ["moved", "removed"]);
}
