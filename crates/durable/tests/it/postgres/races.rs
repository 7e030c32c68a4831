//! Cancels and moves at random moments, of timers that several instances have. `DURABLE_RACES=100000` takes as many.

use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use timingwheel_durable::{Cancelled, Moved};

use super::child::{setting, start};
use super::cluster::Cluster;
use super::support::Tick;
use crate::proof::history::{History, millis};

#[test]
fn cancels_and_moves_from_everywhere_are_answered_right() {
    let races = setting("DURABLE_RACES", 800);
    let cluster = Cluster::new();
    let history = History::open(cluster.folder.path());
    let others: Vec<Child> = (0..2).map(|_| cluster.instance(&cluster.url(), 0)).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let durable = start(&cluster.url(), &history, &Arc::default()).await;
        // Enough for each moment of a timer's life to be met.
        let places = Arc::new(tokio::sync::Semaphore::new(32));
        // How long the last save took, in milliseconds: timers are due after that, also where the machine is slow.
        let took = Arc::new(AtomicI64::new(0));
        let tasks = (0..races).map(|race| {
            let (durable, history, places) = (durable.clone(), history.clone(), places.clone());
            let took = took.clone();
            tokio::spawn(async move {
                let _place = places.acquire().await;
                let mut random = fastrand::Rng::new();
                let (name, now) = (format!("race-{race}"), millis(Timestamp::now()));
                let due = now + 2 * took.load(Ordering::Relaxed) + random.i64(0..60);
                let at = Timestamp::from_millisecond(due).unwrap();
                history.tell(&format!("ask {name} {due}"));
                durable.at(at, &Tick::new(name.clone())).key(&name).save().await.expect("a save");
                history.tell(&format!("saved {name}"));
                took.store(millis(Timestamp::now()) - now, Ordering::Relaxed);
                let early = Duration::from_millis(random.u64(..90));
                tokio::time::sleep(early).await;
                if random.bool() {
                    history.tell(&format!("cancelling {name}"));
                    match durable.cancel(name.as_str()).await.expect("a cancel") {
                        Cancelled::Removed => history.tell(&format!("removed {name}")),
                        _ => history.tell(&format!("kept {name}")),
                    }
                } else {
                    let to = due + random.i64(-30..60);
                    history.tell(&format!("moving {name} {to}"));
                    let to_at = Timestamp::from_millisecond(to).unwrap();
                    if let Moved::Moved(_) = durable.reschedule(name.as_str(), to_at).await.expect("a move") {
                        history.tell(&format!("moved {name} {to}"));
                    }
                }
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.expect("no panic");
        }
        super::support::until("all have ended", async || {
            durable.count().await.is_ok_and(|counts| counts == Default::default())
        })
        .await;
        durable.stop(Duration::from_secs(60)).await;
    });
    let found = cluster
        .check(others)
        .unwrap_or_else(|wrong| panic!("{} faults: {:?}", wrong.len(), &wrong[..wrong.len().min(5)]));
    assert!(found.removed > 20 && found.moved > 20, "{found:?}");
}
