//! Handlers whose calls come late for the lease.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use timingwheel_calendar::Periodic;
use timingwheel_durable::{Answer, Durable, Kind, Missed, Moved, Run};

use super::leased::Leased;
use super::script::{Rig, secs};

/// Its handler takes that many milliseconds before it lets others run, as where a process stands still.
#[derive(Serialize, Deserialize)]
struct Stall(u64);

impl Kind for Stall {
    const KIND: &'static str = "stall";
}

#[derive(Serialize, Deserialize)]
struct Series;

impl Kind for Series {
    const KIND: &'static str = "series";
}

/// A series whose first run was missed, and is called after its process stood still for too long.
async fn late_series(is_moved: bool) {
    let rig = Rig::on(Leased::new());
    let saves = rig.start().await;
    saves.after(secs(10), &Stall(85_000)).save().await.unwrap();
    let hourly = Periodic::seconds(3_600, rig.at(0));
    saves.every("hourly", hourly, &Series).missed(Missed::once()).save().await.unwrap();
    if is_moved {
        assert!(matches!(saves.reschedule("hourly", rig.at(3_700)).await.unwrap(), Moved::Moved(_)));
    }
    saves.stop(secs(1)).await;
    rig.wheel.sleep(secs(4 * 3_600)).await;

    let runs = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&runs);
    let durable = Durable::builder(&rig.wheel, rig.store.clone())
        .clock(rig.clock.clone())
        // Nothing begins after 80 seconds, and nobody else does before 100.
        .lease(secs(100))
        .on(|Stall(millis), _| async move {
            tokio::time::advance(Duration::from_millis(millis)).await;
            Ok(Answer::Done)
        })
        .on(move |_: Series, run: Run| {
            noted.lock().unwrap().push((run.scheduled(), run.attempt));
            async { Ok(Answer::Done) }
        })
        .start()
        .await
        .unwrap();
    rig.wheel.sleep(secs(300)).await;
    // A moved run does not count as missed, so a missed run is caught up on too.
    let expected: &[_] =
        if is_moved { &[(rig.at(3_600), 1), (rig.at(7_200), 1)] } else { &[(rig.at(3_600), 1)] };
    assert_eq!(*runs.lock().unwrap(), expected);
    let stats = durable.stats();
    let attempts = 2 + expected.len() as u64;
    assert_eq!(
        (stats.attempts, stats.rejoined, stats.fenced),
        (attempts, 0, 0),
        "it was on its way once more"
    );
    let next = durable.get("hourly").await.unwrap().expect("it goes on");
    assert_eq!(next.timer.due(), rig.at(5 * 3_600));
}

#[tokio::test(start_paused = true)]
async fn a_missed_run_whose_call_comes_too_late_is_made_after_that() {
    late_series(false).await;
}

#[tokio::test(start_paused = true)]
async fn a_moved_run_whose_call_comes_too_late_keeps_its_series() {
    late_series(true).await;
}

#[tokio::test(start_paused = true)]
async fn calls_that_have_waited_for_longer_than_a_lease_are_made_if_it_was_renewed_meanwhile() {
    const TIMERS: u64 = 1_000;
    let rig = Rig::on(Leased::new());
    let saves = rig.start().await;
    for _ in 0..TIMERS {
        saves.after(secs(10), &Stall(100)).save().await.unwrap();
    }
    saves.stop(secs(1)).await;
    rig.wheel.sleep(secs(20)).await;
    let calls = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&calls);
    let durable = Durable::builder(&rig.wheel, rig.store.clone())
        .clock(rig.clock.clone())
        .lease(secs(100))
        .on(move |Stall(millis), _| {
            counted.fetch_add(1, Ordering::Relaxed);
            async move {
                tokio::time::advance(Duration::from_millis(millis)).await;
                Ok(Answer::Done)
            }
        })
        .start()
        .await
        .unwrap();
    rig.wheel.sleep(secs(300)).await;
    assert_eq!(calls.load(Ordering::Relaxed), TIMERS);
    let stats = durable.stats();
    assert_eq!((stats.attempts, stats.done, stats.rejoined), (TIMERS, TIMERS, 0), "no call came too late");
}
