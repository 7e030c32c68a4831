//! The limits of a database: a save beyond them is refused alone, and a server has so many connections.

use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{Manager, Pool};
use timingwheel_durable::store::{Begun, Near, NewTimer, Store, ToBegin};
use timingwheel_durable::{Answer, Kind, PostgresError, PostgresStore, Run, TimerId};
use tokio::sync::watch;
use tokio_postgres::NoTls;

use super::server::{Server, database};
use super::support::{Tick, builder, client, soon, store, ticks, until};

/// Nothing in it repeats, so no compression makes it fit into an index.
fn key(len: usize) -> String {
    let mut random = fastrand::Rng::with_seed(7);
    std::iter::repeat_with(|| random.alphanumeric()).take(len).collect()
}

#[tokio::test]
async fn a_key_that_is_too_long_is_refused_and_its_transaction_goes_on() {
    let url = database().await;
    let (store, mut sql) = (store(&url).await, client(&url).await);
    let (due, tick, transaction) =
        (soon(86_400_000), Tick::new("far"), sql.transaction().await.expect("one"));
    let save = async |len| store.save_in(&transaction, due, &tick).key(key(len)).save().await;
    for len in [1_025, 100_000] {
        assert!(matches!(save(len).await, Err(PostgresError::Text(_))), "{len}");
    }
    save(1_024).await.expect("the transaction goes on");
    transaction.commit().await.expect("a commit");
}

/// Handlers that end in their own transactions, many more than the server has connections. Each that has a connection holds it
/// until all handlers were called.
#[tokio::test(flavor = "multi_thread")]
async fn handlers_with_a_pool_leave_the_store_its_connections_however_many_run() {
    const HANDLERS: usize = 64;
    // Six for the handlers, six for the store, and one for this test.
    let server = Server::with_connections(13);
    let url = server.url("postgres");
    let sql = client(&url).await;
    sql.batch_execute("create table effects (name text not null)").await.expect("a table");
    let manager = Manager::new(url.parse().expect("an address"), NoTls);
    let pool = Pool::builder(manager).max_size(6).build().expect("a pool");
    let called = watch::Sender::new(0);
    let (pool_of_handlers, tells) = (pool.clone(), called.clone());
    let handler = move |tick: Tick, run: Run| {
        let (pool, tells) = (pool_of_handlers.clone(), tells.clone());
        async move {
            tells.send_modify(|called| *called += 1);
            let mut sql = pool.get().await?;
            let transaction = sql.transaction().await?;
            transaction.execute("insert into effects values ($1)", &[&tick.name]).await?;
            tells.subscribe().wait_for(|called| *called > HANDLERS).await?;
            run.finish_in(&transaction).await?;
            transaction.commit().await?;
            Ok(Answer::Done)
        }
    };
    let durable =
        builder(store(&url).await, Duration::from_secs(30)).on(handler).start().await.expect("a start");
    let names: Vec<String> = (0..HANDLERS).map(|number| format!("{number:02}")).collect();
    let ticks: Vec<Tick> = names.iter().map(Tick::new).collect();
    for save in futures::future::join_all(ticks.iter().map(|tick| durable.at(soon(0), tick).save())).await {
        save.expect("a save");
    }
    until("all handlers run", async || *called.borrow() == HANDLERS && pool.status().waiting > 50).await;

    // All connections of the store at once, beside those of the handlers.
    let far = Tick::new("far");
    let saves = (0..16).map(|_| durable.at(soon(86_400_000), &far).save());
    let ids = futures::future::join_all(saves).await;
    let cancels = ids.into_iter().map(|id| durable.cancel(id.expect("a save")));
    for cancelled in futures::future::join_all(cancels).await {
        cancelled.expect("a cancel");
    }
    called.send_modify(|called| *called += 1);

    until("all are done", async || durable.count().await.expect("counts") == Default::default()).await;
    let rows = sql.query("select name from effects order by name", &[]).await.expect("effects");
    assert_eq!(rows.iter().map(|row| row.get(0)).collect::<Vec<String>>(), names);
    durable.stop(Duration::from_secs(60)).await;
    let stats = durable.stats();
    assert_eq!((stats.attempts, stats.retried, stats.store_errors), (HANDLERS as u64, 0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_room_on_the_server_the_error_says_what_was_tried_and_why_it_failed() {
    let server = Server::with_connections(8);
    let url = server.url("postgres");
    let store = store(&url).await;
    let mut others = Vec::new();
    while let Ok((client, connection)) = tokio_postgres::connect(&url, NoTls).await {
        tokio::spawn(connection);
        others.push(client);
    }
    let expected = format!(
        "no connection to the database at 127.0.0.1:{}/postgres: sorry, too many clients already (code 53300)",
        server.port()
    );
    let refused = PostgresStore::connect(&url).await.expect_err("no room");
    assert_eq!(refused.to_string(), expected);
    // It has one connection, which the first call takes.
    let (first, second) = futures::future::join(store.count(), store.count()).await;
    first.expect("its own connection");
    let refused = second.expect_err("no room");
    assert_eq!(refused.to_string(), expected);
    assert!(PostgresStore::is_transient(&refused), "it may be called again");
    drop(others);
    until("there is room again", async || {
        let both = futures::future::join(store.count(), store.count()).await;
        matches!(both, (Ok(_), Ok(_)))
    })
    .await;
}

#[tokio::test]
async fn large_payloads_begin_a_few_at_a_time_and_all_of_them_do() {
    const EACH: usize = 256 << 10;
    let url = database().await;
    let store = store(&url).await;
    let owner = store.join(Duration::from_secs(90), ticks()).await.expect("a join");
    let ids: Vec<TimerId> = (0..40).map(|n| TimerId::new(soon(-1_000), (1 << 20) + n)).collect();
    // Nothing in them repeats: the table stores as many bytes as an answer has.
    let payload = format!("{:?}", key(EACH - 2));
    let new = |id: &TimerId| NewTimer::new(*id, Tick::KIND, payload.as_bytes());
    store.save(ids.iter().map(new).collect()).await.expect("a save");
    let mut left: Vec<Near> = ids.into_iter().map(Near::from).collect();
    let mut calls = 0;
    while !left.is_empty() {
        calls += 1;
        let kinds = Arc::new([Tick::KIND.to_owned()].into());
        let answers = store.begin(owner, ToBegin { timers: left.clone(), kinds }).await.expect("a begin");
        let begun = answers.iter().filter(|answer| matches!(answer, Begun::Yours(_))).count();
        assert!((1..=(4 << 20) / EACH).contains(&begun), "{begun} of {}", left.len());
        let others = answers.iter().filter(|answer| **answer == Begun::Locked).count();
        assert_eq!(begun + others, left.len(), "the others are asked for again");
        let mut answers = answers.into_iter();
        left.retain(|_| answers.next() == Some(Begun::Locked));
    }
    assert_eq!(calls, 3);
}
