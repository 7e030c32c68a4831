//! A program that has the database for itself, and another one that follows while it runs.

use std::sync::Arc;
use std::time::Duration;

use timingwheel_durable::{
    Answer, Durable, Error, PostgresOptions, PostgresStore, Run, tokio_postgres::NoTls,
};
use tokio::sync::Notify;

use super::server::database;
use super::support::{Calls, Tick, builder, soon, until};

/// Short: a lost instance hears of it when it renews.
const LEASE: Duration = Duration::from_secs(6);

async fn store(url: &str) -> PostgresStore {
    let options = PostgresOptions::new(url).expect("an address").sole();
    PostgresStore::connect_with(options, NoTls).await.expect("a store")
}

/// One whose handler runs until it is let go.
async fn held(url: &str, calls: &Calls, go: &Arc<Notify>) -> Durable {
    let (calls, go) = (calls.clone(), Arc::clone(go));
    let handler = move |tick: Tick, run: Run| {
        calls.note(tick, &run);
        let go = Arc::clone(&go);
        async move {
            go.notified().await;
            Ok(Answer::Done)
        }
    };
    builder(store(url).await, LEASE).on(handler).start().await.expect("a start")
}

#[tokio::test]
async fn a_program_that_has_all_timers_and_is_taken_over_is_lost_for_good_and_changes_nothing() {
    let (url, of_old, of_new) = (database().await, Calls::default(), Calls::default());
    let (go, let_go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let old = held(&url, &of_old, &go).await;
    old.at(soon(10), &Tick::new("runs")).key("runs").save().await.expect("a save");
    old.at(soon(86_400_000), &Tick::new("far")).key("far").save().await.expect("a save");
    until("it runs", async || !of_old.all().is_empty()).await;

    let new = held(&url, &of_new, &let_go).await;
    until("the new one runs it again", async || !of_new.all().is_empty()).await;
    assert_eq!(new.stats().shards, (64, 64));
    until("the old one hears of it", async || old.stats().lost).await;
    assert_eq!(old.stats().rejoined, 0);
    let refused = old.at(soon(10), &Tick::new("too late")).save().await;
    assert!(matches!(refused, Err(Error::Lost)), "{refused:?}");
    let refused = old.cancel("far").await;
    assert!(matches!(refused, Err(Error::Lost)), "{refused:?}");

    // Its handler ends while the new one's runs: the timer is still there.
    go.notify_one();
    until("its result is refused", async || old.stats().fenced == 1).await;
    assert_eq!(old.stats().done, 0);
    let counts = new.count().await.expect("counts");
    assert_eq!((counts.stored, counts.begun, counts.buried), (1, 1, 0));
    let_go.notify_one();
    until("the new one has ended it", async || new.stats().done == 1).await;
    assert_eq!(old.stop(Duration::from_secs(60)).await, Default::default());
    assert!(!new.stats().lost, "the old one takes nothing with it");
    assert!(new.cancel("far").await.is_ok());
    new.stop(Duration::from_secs(60)).await;
    let attempts =
        |calls: &Calls| calls.all().into_iter().map(|(name, attempt, _)| (name, attempt)).collect::<Vec<_>>();
    assert_eq!((attempts(&of_old), attempts(&of_new)), (vec![("runs".into(), 1)], vec![("runs".into(), 2)]));
}
