//! Timers in transactions of the user's.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use timingwheel_calendar::Periodic;
use timingwheel_durable::{
    Answer, Backoff, Cancelled, HandlerResult, Missed, Moved, PostgresError, Run, Saved,
};

use super::server::database;
use super::support::{Calls, Tick, builder, client, instance, soon, store, until};

const LEASE: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_timer_is_there_if_the_transaction_it_was_saved_in_is_committed() {
    let (url, calls) = (database().await, Calls::default());
    let one = instance(&url, LEASE, &calls).await;
    let other = store(&url).await;
    let mut sql = client(&url).await;
    let transaction = sql.transaction().await.expect("a transaction");
    other.save_in(&transaction, soon(50), &Tick::new("rolled back")).save().await.expect("a save");
    transaction.rollback().await.expect("a rollback");
    let transaction = sql.transaction().await.expect("a transaction");
    other.save_in(&transaction, soon(50), &Tick::new("committed")).save().await.expect("a save");
    let far = soon(86_400_000);
    let save = |name| other.save_in(&transaction, far, &Tick::new(name)).key("k");
    let first = save("keyed").save().await.expect("a save");
    let taken = save("second").save().await;
    assert!(matches!(taken, Err(PostgresError::KeyTaken(id)) if id == first), "and the transaction goes on");
    let third = save("third").replace().save().await.expect("a save");
    assert!(matches!(third, Saved::Replaced { dropped, .. } if dropped.id() == first), "{third:?}");
    transaction.commit().await.expect("a commit");
    until("it was called", async || !calls.all().is_empty()).await;
    let transaction = sql.transaction().await.expect("a transaction");
    assert_eq!(other.cancel_in(&transaction, "k").await.expect("a cancel"), Cancelled::Removed);
    assert_eq!(other.cancel_in(&transaction, first).await.expect("a cancel"), Cancelled::NotFound);
    transaction.commit().await.expect("a commit");
    until("nothing is left", async || one.count().await.expect("counts") == Default::default()).await;
    one.stop(Duration::from_secs(60)).await;
    assert_eq!(calls.names(), ["committed"]);
}

#[tokio::test]
async fn what_is_done_with_finish_in_is_done_once_also_if_the_instance_is_taken_for_dead() {
    let url = database().await;
    let mut sql = client(&url).await;
    sql.batch_execute("create table effects (name text not null)").await.expect("a table");
    let address = url.clone();
    let handler = move |tick: Tick, run: Run| {
        let address = address.clone();
        async move {
            let mut sql = client(&address).await;
            let transaction = sql.transaction().await?;
            transaction.execute("insert into effects values ($1)", &[&tick.name]).await?;
            if run.attempt == 1 && tick.name == "fails" {
                run.finish_in(&transaction).await?;
                transaction.rollback().await?;
                return Err("rolled back".into());
            }
            if run.attempt == 1 && tick.name == "lost" {
                // Somebody takes it for dead between the effect and the end, and the timer is begun anew.
                sql_of_others(&address, &run).await;
            }
            run.finish_in(&transaction).await?;
            transaction.commit().await?;
            Ok(Answer::Done)
        }
    };
    let one = builder(store(&url).await, LEASE)
        .on(handler)
        .retry::<Tick>(Backoff::fixed(Duration::from_millis(10)))
        .start()
        .await
        .expect("a start");
    for name in ["plain", "fails", "lost"] {
        one.at(soon(10), &Tick::new(name)).save().await.expect("a save");
    }
    let plan = Periodic::seconds(1, soon(-10_000));
    one.every("series", plan, &Tick::new("series")).save().await.expect("a series");
    let names = async |sql: &tokio_postgres::Client| -> Vec<String> {
        let rows = sql.query("select name from effects order by name", &[]).await.expect("effects");
        rows.iter().map(|row| row.get(0)).collect()
    };
    until("all are done", async || {
        let names = names(&sql).await;
        ["plain", "fails", "series"].iter().all(|name| names.iter().any(|done| done == name))
    })
    .await;
    one.cancel("series").await.expect("a cancel");
    until("only the lost one is left", async || {
        one.list(Default::default()).await.expect("a list").len() == 1
    })
    .await;
    let transaction = sql.transaction().await.expect("a transaction");
    drop(transaction);
    let names = names(&sql).await;
    for name in ["plain", "fails"] {
        assert_eq!(names.iter().filter(|done| *done == name).count(), 1, "{name}: {names:?}");
    }
    assert!(!names.contains(&"lost".to_owned()), "its transaction was refused: {names:?}");
    one.stop(Duration::from_secs(60)).await;
}

#[tokio::test]
async fn a_handler_that_fails_after_finish_in_has_committed_is_done() {
    let (url, calls) = (database().await, Calls::default());
    let (address, noted) = (url.clone(), calls.clone());
    let handler = move |tick: Tick, run: Run| {
        let (address, name) = (address.clone(), tick.name.clone());
        noted.note(tick, &run);
        async move {
            let mut sql = client(&address).await;
            let transaction = sql.transaction().await?;
            run.finish_in(&transaction).await?;
            if name == "rolled back" && run.attempt == 1 {
                transaction.rollback().await?;
            } else {
                transaction.commit().await?;
            }
            match name.as_str() {
                "panics" => panic!("after the commit"),
                "buries" => Ok(Answer::Bury("after the commit".into())),
                _ => Err("after the commit".into()),
            }
        }
    };
    let backoff = Backoff::fixed(Duration::from_millis(10)).tries(2);
    let one = builder(store(&url).await, LEASE).on(handler).retry::<Tick>(backoff);
    let one = one.start().await.expect("a start");
    for name in ["fails", "panics", "buries", "rolled back"] {
        one.at(soon(10), &Tick::new(name)).save().await.expect("a save");
    }
    until("all have ended", async || {
        let stats = one.stats();
        stats.done + stats.retried + stats.buried == 5
    })
    .await;
    let stats = one.stats();
    assert_eq!((stats.done, stats.retried, stats.buried), (4, 1, 0), "only the rollback is made again");
    assert_eq!(calls.all().len(), 5);
    assert_eq!(one.count().await.expect("a count"), Default::default());
    one.stop(Duration::from_secs(60)).await;
}

#[tokio::test]
async fn a_handler_that_fails_after_a_finish_in_that_was_rolled_back_is_fenced_if_another_has_begun_its_timer()
 {
    let url = database().await;
    let address = url.clone();
    let handler = move |_: Tick, run: Run| {
        let address = address.clone();
        async move {
            let mut sql = client(&address).await;
            let transaction = sql.transaction().await?;
            run.finish_in(&transaction).await?;
            transaction.rollback().await?;
            sql_of_others(&address, &run).await;
            Err("rolled back".into())
        }
    };
    let one = builder(store(&url).await, LEASE).on(handler).start().await.expect("a start");
    one.at(soon(10), &Tick::new("fails")).save().await.expect("a save");
    until("it has ended", async || one.stats().attempts == 1 && one.stats().begun == 0).await;
    let stats = one.stats();
    assert_eq!((stats.fenced, stats.done, stats.retried), (1, 0, 0), "it is the other's");
    one.stop(Duration::from_secs(60)).await;
}

#[tokio::test]
async fn a_handler_and_a_request_that_both_change_the_order_first_and_the_timer_last_never_deadlock() {
    let (url, called) = (database().await, Arc::new(AtomicI64::new(0)));
    let mut sql = client(&url).await;
    sql.batch_execute("create table orders (state text not null); insert into orders values ('new')")
        .await
        .expect("a table");
    let (address, calls) = (url.clone(), Arc::clone(&called));
    let handler = move |_: Tick, run: Run| {
        let (address, calls) = (address.clone(), Arc::clone(&calls));
        async move {
            let mut sql = client(&address).await;
            let transaction = sql.transaction().await?;
            calls.fetch_add(1, Ordering::Relaxed);
            transaction.execute("update orders set state = state || ' cancelled'", &[]).await?;
            run.finish_in(&transaction).await?;
            transaction.commit().await?;
            Ok(Answer::Done)
        }
    };
    let one = builder(store(&url).await, LEASE).on(handler).start().await.expect("a start");
    let other = store(&url).await;
    let transaction = sql.transaction().await.expect("a transaction");
    transaction.execute("update orders set state = state || ' paid'", &[]).await.expect("an update");
    let id = one.at(soon(10), &Tick::new("order")).save().await.expect("a save");
    until("the handler waits for the order", async || {
        let waits = "select 1 from pg_stat_activity where datname = current_database() \
            and wait_event_type = 'Lock' and query like 'update orders%'";
        called.load(Ordering::Relaxed) == 1 && !transaction.query(waits, &[]).await.expect("rows").is_empty()
    })
    .await;
    let told = other.cancel_in(&transaction, id).await.expect("a cancel");
    assert_eq!(told, Cancelled::Running(1));
    transaction.commit().await.expect("no deadlock");
    until("it is done", async || one.stats().done == 1).await;
    let state: String = sql.query_one("select state from orders", &[]).await.expect("an order").get(0);
    assert_eq!((state.as_str(), called.load(Ordering::Relaxed)), ("new paid cancelled", 1));
    one.stop(Duration::from_secs(60)).await;
}

/// Ends its attempt in a transaction, and counts it.
fn finishes(
    url: &str,
    called: &Arc<AtomicI64>,
) -> impl Fn(Tick, Run) -> BoxFuture<'static, HandlerResult> + Send + Sync + 'static {
    let (address, calls) = (url.to_owned(), Arc::clone(called));
    move |_, run| {
        let (address, calls) = (address.clone(), Arc::clone(&calls));
        Box::pin(async move {
            let mut sql = client(&address).await;
            let transaction = sql.transaction().await?;
            run.finish_in(&transaction).await?;
            transaction.commit().await?;
            calls.fetch_add(1, Ordering::Relaxed);
            Ok(Answer::Done)
        })
    }
}

#[tokio::test]
async fn after_finish_in_the_next_run_of_a_series_comes_and_nothing_else_is_loaded() {
    let url = database().await;
    let called = Arc::new(AtomicI64::new(0));
    let one = builder(store(&url).await, Duration::from_secs(600)).on(finishes(&url, &called));
    let one = one.start().await.expect("a start");
    let secondly = Periodic::seconds(1, soon(0));
    one.every("series", secondly, &Tick::new("series")).save().await.expect("a series");
    until("it runs", async || called.load(Ordering::Relaxed) > 1).await;
    let before = one.stats().loads;
    until("it goes on", async || called.load(Ordering::Relaxed) > 4).await;
    // One that comes now and then may have come just now.
    let loads = one.stats().loads - before;
    assert!(loads <= 1, "{loads}");
    one.stop(Duration::from_secs(60)).await;
}

#[tokio::test]
async fn finish_in_plans_the_next_run_by_the_clock_that_the_timer_was_due_by() {
    let url = database().await;
    let one = builder(store(&url).await, Duration::from_secs(600))
        // The machine's clock is an hour ahead of the database's.
        .clock(|| soon(3_600_000))
        .on(finishes(&url, &Arc::default()))
        .start()
        .await
        .expect("a start");
    until("it has its shards", async || one.stats().shards == (64, 64)).await;
    let minutely = Periodic::seconds(60, soon(-59_500));
    let series = one.every("series", minutely, &Tick::new("series"));
    let id = series.missed(Missed::none()).save().await.expect("a series").id().expect("a run");
    let mut next = id;
    until("the next run is stored", async || {
        next = one.list(Default::default()).await.expect("a list")[0].timer.id();
        next != id
    })
    .await;
    assert!(next.first_due() < soon(600_000), "{}", next.first_due());
    one.stop(Duration::from_secs(60)).await;
}

/// Another instance begins the timer.
async fn sql_of_others(url: &str, run: &Run) {
    let sql = client(url).await;
    let begun = sql
        .execute(
            "update timingwheel.timers set begun_by = 0, attempts = attempts + 1 where number = $1",
            &[&(run.id.unique().cast_signed())],
        )
        .await
        .expect("an update");
    assert_eq!(begun, 1);
    // It stays alive, so that nobody begins the timer again.
    let alive = "insert into timingwheel.instances values (0, 'other', now() + interval '1 hour')";
    sql.batch_execute(alive).await.expect("an instance");
}

#[tokio::test]
async fn functions_for_other_languages_save_move_and_cancel() {
    let (url, calls) = (database().await, Calls::default());
    let one = instance(&url, LEASE, &calls).await;
    let sql = client(&url).await;
    let told =
        async |statement: &str| -> String { sql.query_one(statement, &[]).await.expect(statement).get(0) };
    let save =
        "select timingwheel.save_timer(now() + interval '30 days', 'tick', '{\"name\": \"sql\"}', 'k')";
    let id: timingwheel_durable::TimerId = told(save).await.parse().expect("an id");
    let stored = one.list(Default::default()).await.expect("a list");
    assert_eq!((stored[0].timer.id(), stored[0].key.as_deref()), (id, Some("k")));
    let taken = sql.query_one(save, &[]).await.expect_err("the key is taken");
    assert_eq!(taken.code(), Some(&tokio_postgres::error::SqlState::UNIQUE_VIOLATION));
    assert_eq!(told("select timingwheel.move_timer('k', now() + interval '1 day')").await, "moved");
    assert_eq!(told("select id from timingwheel.pending").await, id.to_string());
    assert_eq!(told("select timingwheel.cancel_timer('k')").await, "removed");
    assert_eq!(told("select timingwheel.cancel_timer('k')").await, "not found");
    assert_eq!(told("select timingwheel.move_timer('k', now())").await, "not found");
    one.stop(Duration::from_secs(60)).await;
    assert!(calls.all().is_empty());
}

#[tokio::test]
async fn a_transaction_saves_many_timers_and_moves_one_and_a_rollback_leaves_all_as_they_were() {
    let (url, calls) = (database().await, Calls::default());
    let one = instance(&url, LEASE, &calls).await;
    let moved = one.at(soon(86_400_000), &Tick::new("moved")).key("m").save().await.expect("a save");
    let (other, mut sql) = (store(&url).await, client(&url).await);
    for commits in [false, true] {
        let transaction = sql.transaction().await.expect("a transaction");
        let far = soon(86_400_000);
        // The key of another timer, of the first of these, and of nobody.
        let keys = ["m".to_owned(), "k0".to_owned()].into_iter().chain((0..1_000).map(|n| format!("k{n}")));
        let savings = keys.map(|key| other.save_in(&transaction, far, &Tick::new("many")).key(key));
        let saved = other.save_all_in(savings).await;
        assert!(matches!(&saved[0], Err(PostgresError::KeyTaken(id)) if *id == moved), "{:?}", saved[0]);
        let first = *saved[1].as_ref().expect("a save");
        assert!(matches!(&saved[2], Err(PostgresError::KeyTaken(id)) if *id == first), "{:?}", saved[2]);
        assert_eq!(saved[3..].iter().filter(|saved| saved.is_ok()).count(), 999);
        let soon = soon(100);
        assert_eq!(other.reschedule_in(&transaction, "m", soon).await.expect("a move"), Moved::Moved(moved));
        let none = other.reschedule_in(&transaction, "nobody", soon).await.expect("a move");
        assert_eq!(none, Moved::NotFound);
        if commits {
            transaction.commit().await.expect("a commit");
        } else {
            transaction.rollback().await.expect("a rollback");
            assert_eq!(one.count().await.expect("counts").stored, 1);
        }
    }
    until("the moved one was called", async || calls.names() == ["moved"]).await;
    assert_eq!(one.count().await.expect("counts").stored, 1_000);
    one.stop(Duration::from_secs(60)).await;
}

#[tokio::test]
async fn a_series_is_saved_in_a_transaction_with_the_same_answers_and_runs_when_that_commits() {
    let (url, calls) = (database().await, Calls::default());
    let one = instance(&url, LEASE, &calls).await;
    let (other, mut sql) = (store(&url).await, client(&url).await);
    let (seconds, hours) = (Periodic::seconds(1, soon(0)), Periodic::hours(1, soon(0)));
    let transaction = sql.transaction().await.expect("a transaction");
    let save = |plan: &Periodic, name| other.every_in(&transaction, "s", *plan, &Tick::new(name));
    let Ok(Saved::Stored(id)) = save(&hours, "hours").save().await else { panic!("it is new") };
    assert_eq!(save(&hours, "hours").save().await.expect("a save"), Saved::Kept(id));
    assert_eq!(
        save(&hours, "other").missed(Missed::none()).save().await.expect("a save"),
        Saved::Updated(id)
    );
    let replaced = save(&seconds, "seconds").save().await.expect("a save");
    assert!(matches!(replaced, Saved::Replaced { dropped, .. } if dropped.id() == id), "{replaced:?}");
    other.save_in(&transaction, soon(86_400_000), &Tick::new("k")).key("k").save().await.expect("a save");
    let taken = other.every_in(&transaction, "k", hours, &Tick::new("k")).save().await;
    assert!(matches!(taken, Err(PostgresError::KeyTaken(_))), "{taken:?}");
    let nameless = other.every_in(&transaction, "", hours, &Tick::new("k")).save().await;
    assert!(matches!(nameless, Err(PostgresError::Text(_))), "{nameless:?}");
    transaction.commit().await.expect("a commit");
    until("two runs were called", async || calls.all().len() >= 2).await;
    assert_eq!(calls.names()[..2], ["seconds", "seconds"]);
    let kept = one.every("s", seconds, &Tick::new("seconds")).save().await.expect("a save");
    assert!(matches!(kept, Saved::Kept(_)), "{kept:?}");
    one.stop(Duration::from_secs(60)).await;
}
