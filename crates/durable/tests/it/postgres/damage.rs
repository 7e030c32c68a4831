//! Rows that were changed by hand, and cannot be read any more.

use std::time::Duration;

use futures::future::join_all;
use timingwheel_calendar::Once;
use timingwheel_durable::store::Page;
use timingwheel_durable::{Cancelled, Filter, Health, Phase, Symptom};

use super::server::database;
use super::support::{Calls, Tick, builder, client, instance, soon, store, until};

#[tokio::test]
async fn a_row_that_cannot_be_read_stops_no_other() {
    let (url, calls) = (database().await, Calls::default());
    let saver = builder(store(&url).await, Duration::from_secs(30)).start().await.expect("a start");
    for key in ["standing", "missed", "failed"] {
        saver.every(key, Once::at(soon(10)), &Tick::new(key)).save().await.expect("a save");
    }
    for count in 0..20 {
        saver.at(soon(20), &Tick::new(format!("{count:02}"))).save().await.expect("a save");
    }
    let sql = client(&url).await;
    let damage = "update timingwheel.timers set standing = 'often' where key = 'standing';
        update timingwheel.timers set missed = 'never' where key = 'missed';
        update timingwheel.timers set failed = '{null}' where key = 'failed'";
    sql.batch_execute(damage).await.expect("a change");
    let one = instance(&url, Duration::from_secs(30), &calls).await;
    until("all others are called", async || calls.all().len() == 20 && one.stats().damaged == 3).await;
    let symptoms = Health::new(Duration::from_secs(30)).check(&one.stats());
    assert!(symptoms.contains(&Symptom::Damaged(3)), "{symptoms:?}");
    let damaged = saver.look(Filter::new().phase(Phase::Damaged)).await.expect("a page").timers;
    let mut keys: Vec<_> = damaged.iter().filter_map(|shown| shown.timer.key.as_deref()).collect();
    keys.sort_unstable();
    assert_eq!(keys, ["failed", "missed", "standing"]);
    assert!(damaged.iter().all(|shown| shown.damage.is_some() && shown.timer.kind == "tick"), "{damaged:?}");
    // A page goes on behind what cannot be read.
    saver.at(soon(3_600_000), &Tick::new("far")).key("far").save().await.expect("a save");
    let page = Page { limit: 1, ..Page::default() };
    until("the others have ended", async || {
        saver
            .list(page.clone())
            .await
            .expect("a list")
            .iter()
            .all(|timer| timer.key.as_deref() == Some("far"))
    })
    .await;
    let told = saver.get("standing").await.expect_err("it cannot be read").to_string();
    assert!(told.contains("often"), "{told}");
    // People mend it, or remove it.
    one.stop(Duration::from_secs(60)).await;
    sql.batch_execute("update timingwheel.timers set standing = '' where key = 'standing'")
        .await
        .expect("it is");
    assert_eq!(saver.cancel("missed").await.expect("an answer"), Cancelled::Removed);
    let one = instance(&url, Duration::from_secs(30), &calls).await;
    until("it is called", async || calls.names().contains(&"standing".to_owned())).await;
    one.stop(Duration::from_secs(60)).await;
    saver.stop(Duration::from_secs(60)).await;
}

#[tokio::test]
async fn very_many_rows_that_cannot_be_read_hide_no_timer_that_nobody_handles() {
    let (url, calls) = (database().await, Calls::default());
    // All in one shard, and all overdue.
    let damage = "insert into timingwheel.timers (shard, due_ms, number, first_ms, kind, key, rule, missed, standing, payload) \
            select 5, n, 64 * n + 5, n, 'tick', n::text, 'every 9 seconds from 2025-01-01T00:00:00Z', 'each 1', 'often', '1' \
            from generate_series(1, 150) n; \
        insert into timingwheel.timers (shard, due_ms, number, first_ms, kind, payload) \
            values (5, 1000, 5, 1000, 'forgotten', '1')";
    drop(store(&url).await);
    client(&url).await.batch_execute(damage).await.expect("rows");
    let one = instance(&url, Duration::from_secs(30), &calls).await;
    until("it is seen", async || one.stats().unhandled.is_some_and(|seen| seen.kind == "forgotten")).await;
    until("all others are damaged", async || one.stats().damaged == 150).await;
    one.stop(Duration::from_secs(60)).await;
}

#[tokio::test]
async fn a_series_behind_very_many_that_cannot_be_read_is_inspected() {
    let (url, calls) = (database().await, Calls::default());
    let saver = builder(store(&url).await, Duration::from_secs(30)).start().await.expect("a start");
    // More than are asked for at a time.
    let day = soon(86_400_000);
    let damaged = (0..1_100).map(|n| {
        let series = saver.every(format!("damaged-{n}"), Once::at(day), &Tick::new(""));
        series.save()
    });
    assert!(join_all(damaged).await.iter().all(Result::is_ok));
    saver.every("intact", Once::at(soon(90_000_000)), &Tick::new("")).save().await.expect("a save");
    let change = "update timingwheel.timers set standing = 'often' where key like 'damaged-%';
        update timingwheel.timers set due_ms = due_ms + 60000, first_ms = first_ms + 60000 where key = 'intact'";
    client(&url).await.batch_execute(change).await.expect("a change");
    let one = instance(&url, Duration::from_secs(30), &calls).await;
    until("it is planned anew", async || one.stats().replanned == 1).await;
    one.stop(Duration::from_secs(60)).await;
    saver.stop(Duration::from_secs(60)).await;
}
