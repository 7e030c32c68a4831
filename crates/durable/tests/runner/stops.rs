//! The end.

use std::time::Duration;

use timingwheel_durable::{Durable, Error};

use crate::support::{Note, Rig, at, note, secs};

#[tokio::test(start_paused = true)]
async fn a_stop_waits_for_what_runs_and_begins_nothing_more() {
    let rig = Rig::new();
    let durable = rig.start().await;
    durable.at(at(1.0), &Note { takes: 10, ..note("runs") }).save().await.unwrap();
    durable.at(at(5.0), &note("near")).save().await.unwrap();
    rig.sleep(2.0).await;
    let stopped = durable.stop(secs(60)).await;
    assert_eq!((stopped.finished, stopped.aborted, stopped.unsettled), (1, 0, 0));
    assert_eq!(rig.book.texts(), ["runs", "runs ended"]);
    rig.sleep(100.0).await;
    assert_eq!(rig.book.texts().len(), 2, "nothing after the stop");
    assert_eq!(durable.count().await.unwrap().stored, 1);
    assert!(matches!(durable.at(at(9.0), &note("late")).save().await, Err(Error::Stopped)));
    assert!(matches!(durable.cancel("k").await, Err(Error::Stopped)));
    assert_eq!(durable.stop(secs(1)).await, Default::default(), "again");
    assert!(durable.stats().stopped);
    let next = rig.start().await;
    rig.sleep(1.0).await;
    assert_eq!(rig.book.texts().last().unwrap(), "near");
    drop(next);
}

#[tokio::test(start_paused = true)]
async fn a_stop_gives_back_what_is_not_done_at_its_limit_and_the_attempt_counts() {
    let rig = Rig::new();
    let durable = rig.start().await;
    durable.at(at(1.0), &Note { takes: 100, ..note("long") }).save().await.unwrap();
    rig.sleep(2.0).await;
    let stopped = durable.stop(secs(5)).await;
    assert_eq!((stopped.finished, stopped.aborted, stopped.left_running), (0, 1, 0));
    rig.sleep(200.0).await;
    assert_eq!(rig.book.texts(), ["long"]);
    assert_eq!(durable.count().await.unwrap().begun, 0);
    let _next = rig.start().await;
    rig.sleep(1.0).await;
    assert_eq!(rig.book.calls().last().unwrap().run.attempt, 2);
}

#[tokio::test(start_paused = true)]
async fn without_a_handle_what_runs_ends_and_nothing_more_begins() {
    let rig = Rig::new();
    let durable = rig.start().await;
    durable.at(at(1.0), &Note { takes: 5, ..note("runs") }).save().await.unwrap();
    durable.at(at(3.0), &note("near")).save().await.unwrap();
    rig.sleep(2.0).await;
    drop(durable);
    rig.sleep(100.0).await;
    assert_eq!(rig.book.texts(), ["runs", "runs ended"]);
    let next = rig.start().await;
    assert_eq!(next.count().await.unwrap().stored, 1);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_wheel_is_a_stop() {
    let rig = Rig::new();
    let durable = rig.start().await;
    durable.at(at(10.0), &note("a")).save().await.unwrap();
    rig.wheel.shutdown();
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert!(durable.stats().stopped);
    assert!(matches!(durable.at(at(9.0), &note("late")).save().await, Err(Error::Stopped)));
    let wheel = timingwheel::TimingWheel::new();
    let next = Durable::builder(&wheel, rig.store.clone()).start().await.unwrap();
    assert_eq!(next.count().await.unwrap().stored, 1);
}
