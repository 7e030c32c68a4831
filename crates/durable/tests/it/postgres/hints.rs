//! Hints: instances hear of each other's timers.

use std::time::Duration;

use timingwheel_durable::store::{Hint, Kinds, NewTimer, Standing, Store};
use timingwheel_durable::tokio_postgres::NoTls;
use timingwheel_durable::{
    Answer, Cancelled, Durable, Interrupt, Kind, Moved, PostgresOptions, PostgresStore, Run, TimerId,
};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::proxy::before;
use super::server::database;
use super::support::{Calls, GUARD, Tick, builder, client, instance, soon, store, ticks, until};

/// Looks are far apart: without a hint timers would be found after 200 seconds.
const LEASE: Duration = Duration::from_secs(600);

/// Instances that have their shards, and listen before anything is told. What they look for because of each other is over.
async fn are_there(instances: &[&Durable], shards: u32) {
    until("all have their shards", async || {
        instances.iter().all(|instance| instance.stats().shards == (shards, 64))
    })
    .await;
    tokio::time::sleep(Duration::from_millis(1_500)).await;
}

/// Timers, due in two seconds, of a transaction that leaves the hint to another one's, which is for another time.
async fn save_without_a_hint(url: &str, count: usize) {
    let (tells, quiet) = (client(url).await, client(url).await);
    let save = |due: &str, name: &str| {
        format!("select timingwheel.save_timer(now() + interval '{due}', 'tick', '{{\"name\": \"{name}\"}}')")
    };
    tells.batch_execute(&format!("begin; {}", save("90 s", "tells"))).await.expect("a save");
    quiet.batch_execute("begin").await.expect("a transaction");
    for count in 0..count {
        quiet.batch_execute(&save("2 s", &count.to_string())).await.expect("a save");
    }
    tells.batch_execute("commit").await.expect("a commit");
    quiet.batch_execute("commit").await.expect("a commit");
}

#[tokio::test]
async fn what_transactions_save_at_the_same_time_is_found_although_one_of_them_tells() {
    let (url, calls) = (database().await, Calls::default());
    let one = instance(&url, LEASE, &calls).await;
    let two = instance(&url, LEASE, &calls).await;
    are_there(&[&one, &two], 32).await;
    save_without_a_hint(&url, 16).await;
    until("all were called", async || calls.all().len() == 16).await;
    one.stop(Duration::from_secs(60)).await;
    two.stop(Duration::from_secs(60)).await;
}

#[tokio::test]
async fn what_transactions_save_at_the_same_time_is_found_although_hints_come_all_the_time() {
    let (url, calls) = (database().await, Calls::default());
    let one = instance(&url, LEASE, &calls).await;
    are_there(&[&one], 64).await;
    let others = client(&url).await;
    let telling = tokio::spawn(async move {
        loop {
            let tell =
                "select pg_notify('timingwheel', '0 ' || (extract(epoch from now()) * 1000)::bigint + 90000)";
            others.batch_execute(tell).await.expect("a hint");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    });
    save_without_a_hint(&url, 16).await;
    until("all were called", async || calls.all().len() == 16).await;
    telling.abort();
    one.stop(Duration::from_secs(60)).await;
}

#[tokio::test]
async fn what_an_instance_saves_before_it_knows_that_it_has_lost_the_shards_is_told_once_it_does() {
    let (url, calls) = (database().await, Calls::default());
    let old = store(&url).await;
    let owner = old.join(LEASE, ticks()).await.expect("a join");
    old.renew(owner, None).await.expect("a renewal");
    let new = instance(&url, LEASE, &calls).await;
    are_there(&[&new], 32).await;
    let timer = |shard: u64| {
        NewTimer::new(
            TimerId::new(soon(100), (1 << 20) | shard),
            Tick::KIND,
            format!("{{\"name\":\"{shard}\"}}"),
        )
    };
    old.save((0..64).map(timer).collect()).await.expect("a save");
    let renewed = old.renew(owner, None).await.expect("a renewal");
    assert_eq!(renewed.shards, (32, 64));
    until("those of the lost shards were called", async || calls.all().len() == 32).await;
    new.stop(Duration::from_secs(60)).await;
}

#[tokio::test]
async fn two_instances_on_clones_of_one_store_hear_of_each_others_timers() {
    let (url, calls) = (database().await, Calls::default());
    let store = store(&url).await;
    let start = async || builder(store.clone(), LEASE).on(calls.handler()).start().await.expect("a start");
    let (one, two) = (start().await, start().await);
    are_there(&[&one, &two], 32).await;
    for count in 0..40 {
        let far = one.at(soon(86_400_000), &Tick::new(count.to_string())).save().await.expect("a save");
        assert_eq!(one.reschedule(far, soon(0)).await.expect("a move"), Moved::Moved(far));
    }
    until("all were called", async || calls.all().len() == 40).await;
    one.stop(Duration::from_secs(60)).await;
    two.stop(Duration::from_secs(60)).await;
}

#[tokio::test]
async fn who_has_left_or_is_lost_listens_no_more() {
    let url = database().await;
    let (store, sql) = (store(&url).await, client(&url).await);
    let listening = async || -> i64 {
        let count = "select count(*) from pg_stat_activity \
            where datname = current_database() and query like 'listen %'";
        sql.query_one(count, &[]).await.expect("a count").get(0)
    };
    let owner = store.join(LEASE, ticks()).await.expect("a join");
    assert_eq!(store.hint(owner).await, Hint::Shares);
    assert_eq!(listening().await, 1);
    store.leave(owner).await.expect("a leave");
    until("nobody listens", async || listening().await == 0).await;
    let owner = store.join(LEASE, ticks()).await.expect("a join");
    assert_eq!(store.hint(owner).await, Hint::Shares);
    sql.batch_execute("delete from timingwheel.instances").await.expect("a delete");
    assert_eq!(store.renew(owner, None).await.expect("a renewal").standing, Standing::Expired);
    until("nobody listens", async || listening().await == 0).await;
}

#[test]
fn timers_that_a_program_saves_before_it_ends_are_hinted_at() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (lives, calls) = (runtime(), Calls::default());
    let url = lives.block_on(database());
    let one = lives.block_on(instance(&url, LEASE, &calls));
    lives.block_on(are_there(&[&one], 64));
    runtime().block_on(async {
        let program = builder(store(&url).await, LEASE).start().await.expect("a start");
        program.at(soon(1_000), &Tick::new("soon")).save().await.expect("a save");
        program.stop(Duration::from_secs(60)).await;
    });
    lives.block_on(until("it was called", async || calls.names() == ["soon"]));
    runtime().block_on(async {
        let program = store(&url).await;
        let owner = program.join(LEASE, Kinds::default()).await.expect("a join");
        program.leave(owner).await.expect("a leave");
        // It was on its way.
        let id = TimerId::new(soon(1_000), 1 << 20);
        let late = NewTimer::new(id, Tick::KIND, "{\"name\":\"late\"}");
        program.save(vec![late]).await.expect("a save");
    });
    lives.block_on(async {
        until("the other was called", async || calls.names() == ["late", "soon"]).await;
        one.stop(Duration::from_secs(60)).await;
    });
}

#[tokio::test]
async fn an_instance_leaves_although_its_hints_cannot_be_sent() {
    let url = database().await;
    let slow = "create schema slow;
        create function slow.pg_notify(text, text) returns void language sql as
            $$ select pg_sleep(case when $2 = 'shares' then 0 else 3600 end) $$;
        do $$ begin
            execute format('alter database %I set search_path = slow, pg_catalog, public', current_database());
        end $$";
    let sql = client(&url).await;
    sql.batch_execute(slow).await.expect("a notification that hangs");
    let options = PostgresOptions::new(&url).expect("an address").timeout(LEASE);
    let leaving = PostgresStore::connect_with(options, NoTls).await.expect("a store");
    let owner = leaving.join(LEASE, ticks()).await.expect("a join");
    let timer = NewTimer::new(TimerId::new(soon(3_000), 1 << 20), Tick::KIND, "{\"name\":\"a\"}");
    leaving.save(vec![timer]).await.expect("a save");
    timeout(GUARD, leaving.leave(owner)).await.expect("it ends").expect("a leave");
    let left = sql.query_one("select count(*) from timingwheel.instances", &[]).await.expect("a count");
    assert_eq!(left.get::<_, i64>(0), 0);
}

#[tokio::test]
async fn an_instance_whose_connections_are_half_open_listens_again_within_seconds() {
    let (url, calls) = (database().await, Calls::default());
    let (proxy, through) = before(&url).await;
    let options = PostgresOptions::new(&through).expect("an address").connections(2);
    let options = options.timeout(Duration::from_secs(2));
    let store = PostgresStore::connect_with(options, NoTls).await.expect("a store");
    let one = builder(store, LEASE).on(calls.handler()).start().await.expect("a start");
    are_there(&[&one], 64).await;
    proxy.half_open();
    let save = "select timingwheel.save_timer(now() + interval '1 s', 'tick', '{\"name\": \"soon\"}')";
    client(&url).await.batch_execute(save).await.expect("a save");
    // It renews after 200 seconds.
    let called = timeout(Duration::from_secs(60), until("it is called", async || calls.all().len() == 1));
    called.await.expect("it listens again");
    one.stop(Duration::from_secs(60)).await;
    spawn_blocking(|| drop(proxy)).await.expect("an end");
}

#[tokio::test]
async fn a_handler_hears_a_cancel_by_another_instance_and_one_in_a_transaction_when_that_commits() {
    let url = database().await;
    let (told, mut tells) = tokio::sync::mpsc::unbounded_channel();
    let running = builder(store(&url).await, LEASE).on(move |Tick { name }: Tick, run: Run| {
        let told = told.clone();
        async move {
            told.send((name.clone(), None)).unwrap();
            run.token().cancelled().await;
            told.send((name, run.interrupted())).unwrap();
            Ok(Answer::Done)
        }
    });
    let running = running.start().await.unwrap();
    are_there(&[&running], 64).await;
    // It has no handlers, and no shards.
    let other = builder(store(&url).await, LEASE).start().await.unwrap();
    for name in ["other", "transaction", "psql"] {
        other.at(soon(0), &Tick::new(name)).key(name).save().await.unwrap();
        assert_eq!(tells.recv().await, Some((name.to_owned(), None)));
        if name == "other" {
            assert_eq!(other.cancel(name).await.unwrap(), Cancelled::Running(1));
        } else if name == "psql" {
            client(&url).await.batch_execute("select timingwheel.cancel_timer('psql')").await.unwrap();
        } else {
            let (mut client, store) = (client(&url).await, store(&url).await);
            let transaction = client.transaction().await.unwrap();
            assert_eq!(store.cancel_in(&transaction, name).await.unwrap(), Cancelled::Running(1));
            assert!(tells.try_recv().is_err(), "it has not committed");
            transaction.commit().await.unwrap();
        }
        assert_eq!(tells.recv().await, Some((name.to_owned(), Some(Interrupt::Cancelled))));
    }
    running.stop(GUARD).await;
    other.stop(GUARD).await;
}
