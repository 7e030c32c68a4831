//! The clock of the database is set while an instance works, or the instance's machine is suspended: to the other one that
//! is the same.

use std::sync::Arc;
use std::time::Duration;

use timingwheel_durable::{Answer, Run};
use tokio::sync::Semaphore;

use super::server::database;
use super::support::{Calls, Tick, builder, client, soon, store, until};

/// A database whose clock can be set: its functions find this one before the server's.
async fn database_with_a_clock() -> String {
    let url = database().await;
    let clock = "create schema clock;
        create table clock.set (ahead interval not null);
        insert into clock.set values ('0');
        create function clock.clock_timestamp() returns timestamptz language sql volatile as
            'select pg_catalog.clock_timestamp() + ahead from clock.set';
        do $$ begin
            execute format('alter database %I set search_path = clock, pg_catalog', current_database());
        end $$";
    client(&url).await.batch_execute(clock).await.expect("a clock");
    url
}

#[tokio::test]
async fn results_and_begins_after_the_clock_was_set_forward_are_not_lost() {
    let (url, calls, ends) = (database_with_a_clock().await, Calls::default(), Arc::new(Semaphore::new(0)));
    let (noted, waits) = (calls.clone(), ends.clone());
    // It renews each 200 seconds. A statement is good for ten.
    let one = builder(store(&url).await, Duration::from_secs(600))
        .on(move |tick: Tick, run: Run| {
            noted.note(tick, &run);
            let waits = waits.clone();
            async move {
                waits.acquire().await?.forget();
                Ok(Answer::Done)
            }
        })
        .start()
        .await
        .expect("a start");
    until("it has its shards", async || one.stats().shards == (64, 64)).await;
    one.at(soon(0), &Tick::new("runs")).save().await.expect("a save");
    until("it runs", async || calls.all().len() == 1).await;
    let sql = client(&url).await;
    sql.batch_execute("update clock.set set ahead = '1 minute'").await.expect("a clock that is set");
    ends.add_permits(2);
    until("the result is stored", async || one.count().await.expect("counts") == Default::default()).await;
    sql.batch_execute("update clock.set set ahead = '2 minutes'").await.expect("a clock that is set");
    one.at(soon(0), &Tick::new("begins")).save().await.expect("a save");
    until("it is done, too", async || {
        calls.all().len() == 2 && one.count().await.expect("counts") == Default::default()
    })
    .await;
    let stats = one.stats();
    assert_eq!((stats.fenced, stats.done), (0, 2));
    assert!(calls.all().iter().all(|(_, attempt, _)| *attempt == 1), "{:?}", calls.all());
    one.stop(Duration::from_secs(60)).await;
}
