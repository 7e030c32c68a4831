//! Keys, cancels and moves.

use timingwheel_durable::{Cancelled, Moved};

use super::support::{Note, Rig, at, note};

#[tokio::test(start_paused = true)]
async fn a_cancel_wins_until_the_handler_is_called() {
    let rig = Rig::new();
    let durable = rig.start().await;
    durable.at(at(10.0), &note("far")).key("far").save().await.unwrap();
    durable.at(at(86_400.0 * 30.0), &note("very far")).key("very far").save().await.unwrap();
    let runs = durable.at(at(3.0), &Note { takes: 5, ..note("runs") }).save().await.unwrap();
    assert_eq!(durable.cancel("nobody").await.unwrap(), Cancelled::NotFound);
    rig.sleep(4.0).await;
    assert_eq!(durable.cancel(runs).await.unwrap(), Cancelled::Running(1));
    assert_eq!(durable.cancel("far").await.unwrap(), Cancelled::Removed);
    assert_eq!(durable.cancel("far").await.unwrap(), Cancelled::NotFound);
    assert_eq!(durable.cancel("very far").await.unwrap(), Cancelled::Removed);
    rig.sleep(20.0).await;
    assert_eq!(rig.book.texts(), ["runs", "runs ended"]);
    assert_eq!(durable.cancel(runs).await.unwrap(), Cancelled::NotFound);
    assert_eq!(durable.stats().armed, 0);
}

#[tokio::test(start_paused = true)]
async fn a_timer_is_moved_earlier_and_later_and_to_and_fro() {
    let rig = Rig::new();
    let durable = rig.start().await;
    let id = durable.at(at(10.0), &note("a")).key("a").save().await.unwrap();
    durable.at(at(86_400.0), &note("b")).key("b").save().await.unwrap();
    for due in [20.0, 10.0, 86_400.0, 10.0, 30.0] {
        assert_eq!(durable.reschedule("a", at(due)).await.unwrap(), Moved::Moved(id));
    }
    durable.reschedule("b", at(5.0)).await.unwrap();
    rig.sleep(50.0).await;
    let times: Vec<(String, f64)> =
        rig.book.times().into_iter().map(|(text, time)| (text, time.floor())).collect();
    assert_eq!(times, [("b".into(), 5.0), ("a".into(), 30.0)]);
    assert_eq!(durable.reschedule(id, at(60.0)).await.unwrap(), Moved::NotFound);
    let runs = durable.at(at(60.0), &Note { takes: 5, ..note("runs") }).save().await.unwrap();
    rig.sleep(12.0).await;
    assert_eq!(durable.reschedule(runs, at(90.0)).await.unwrap(), Moved::Running(1));
}

#[tokio::test(start_paused = true)]
async fn a_thousand_saves_at_a_time_go_to_the_store_together() {
    let rig = Rig::new();
    let durable = rig.start().await;
    let tasks: Vec<_> = (0..1_000)
        .map(|number| {
            let durable = durable.clone();
            tokio::spawn(async move { durable.at(at(5.0), &note(&number.to_string())).save().await })
        })
        .collect();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    let stats = durable.stats();
    assert!(stats.saved == 1_000 && stats.save_batches <= 3, "{stats:?}");
    rig.sleep(10.0).await;
    assert_eq!(rig.book.texts().len(), 1_000);
}
