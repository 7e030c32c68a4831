//! Panics in code of the user's that the runner calls, and settings at their bounds.

use std::panic::panic_any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use timingwheel_durable::store::Near;
use timingwheel_durable::{Answer::Done, Backoff, CallBack, Clock, Error, Health, Kind, Outside, Symptom};

use super::handlers::Number;
use super::support::{Note, Rig, at, note, secs};

#[tokio::test(start_paused = true)]
async fn after_a_panic_in_the_runner_saves_are_refused_and_the_health_says_so() {
    let rig = Rig::new();
    let (clock, panics) = (rig.clock.clone(), Arc::new(AtomicBool::new(false)));
    let does = Arc::clone(&panics);
    let now = move || -> Timestamp {
        assert!(!does.load(Ordering::Relaxed), "a clock that panics");
        clock.now()
    };
    let durable = rig.builder().clock(now).start().await.unwrap();
    durable.at(at(1.0), &note("a")).save().await.unwrap();
    rig.sleep(2.0).await;
    assert!(!durable.stats().failed);
    panics.store(true, Ordering::Relaxed);
    // It looks at the clock now and then.
    tokio::time::sleep(secs(600)).await;
    panics.store(false, Ordering::Relaxed);
    let refused = durable.at(at(9.0), &note("b")).save().await;
    assert!(matches!(refused, Err(Error::Failed)), "{refused:?}");
    assert!(matches!(durable.cancel("k").await, Err(Error::Failed)));
    assert_eq!(Health::new(secs(90)).check(&durable.stats()), [Symptom::Failed]);
    assert_eq!(durable.stop(secs(1)).await, Default::default());
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Nameless;

impl Kind for Nameless {
    const KIND: &'static str = "";
}

struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("as it is dropped");
    }
}

/// Panics with something that panics again.
struct Bombs;

impl Outside for Bombs {
    fn begins(&self, _: CallBack) {
        panic_any(Bomb);
    }

    fn hand_over(&self, _: Vec<Near>) {
        panic_any(Bomb);
    }

    fn forget(&self, _: Vec<Near>) {
        panic_any(Bomb);
    }
}

#[tokio::test(start_paused = true)]
async fn a_scheduler_outside_may_panic_with_what_panics_as_it_is_dropped() {
    let rig = Rig::new();
    let durable = rig.builder().outside(Bombs, secs(100)).start().await.unwrap();
    durable.at(at(3_600.0), &note("far")).key("far").save().await.unwrap();
    durable.at(at(1.0), &note("near")).save().await.unwrap();
    rig.sleep(10.0).await;
    durable.cancel("far").await.unwrap();
    rig.sleep(10.0).await;
    assert_eq!((rig.book.texts(), durable.stats().failed), (vec!["near".to_owned()], false));
}

#[tokio::test(start_paused = true)]
async fn settings_are_taken_up_to_their_bounds_and_refused_beyond_with_what_is_allowed() {
    let rig = Rig::new();
    let year = secs(365 * 86_400);
    let (too_long, shorter) = (year + Duration::from_nanos(1), Backoff::exponential(secs(60)..=secs(1)));
    for (builder, told) in [
        (
            rig.builder().on(|_: Note, _| async { Ok(Done) }),
            "a kind must have one handler, got two for \"note\"",
        ),
        (rig.builder().on(|_: Nameless, _| async { Ok(Done) }), "a kind must have a name, got an empty one"),
        (
            rig.builder().retry::<Number>(Backoff::default()),
            "a setting of a kind must be for a kind with a handler, got \"number\"",
        ),
        (
            rig.builder().retry::<Note>(shorter),
            "the last delay of a back-off must be at least the first, got 60s..=1s",
        ),
        (rig.builder().in_memory(0), "the number of timers in memory must be at least 1, got 0"),
        (rig.builder().concurrency(0), "the concurrency must be at least 1, got 0"),
        (
            rig.builder().concurrency_of::<Note>(0),
            "the concurrency of a kind must be at least 1, got 0 for \"note\"",
        ),
        (
            rig.builder().concurrency_in_all::<Note>(0),
            "the concurrency of a kind must be at least 1, got 0 for \"note\"",
        ),
        (
            rig.builder().time_limit::<Note>(Duration::ZERO),
            "the time limit of a kind must be more than 0, got 0 for \"note\"",
        ),
        (rig.builder().horizon(Duration::ZERO), "the horizon must be at least 1 ms, got 0ns"),
        (rig.builder().lease(Duration::ZERO), "the lease must be 1 ms to 365 days, got 0ns"),
        (rig.builder().lease(too_long), "the lease must be 1 ms to 365 days, got 31536000.000000001s"),
    ] {
        assert_eq!(builder.start().await.unwrap_err().to_string(), told);
    }
    let builder =
        rig.builder().lease(year).horizon(Duration::MAX).in_memory(usize::MAX).concurrency(usize::MAX);
    let durable = builder.retry::<Note>(Backoff::fixed(Duration::MAX)).start().await.unwrap();
    assert!(format!("{durable:?}").contains("epoch: 1"), "none of the refused was an owner");
    durable.at(at(1.0), &Note { fails: 1, ..note("fails") }).save().await.unwrap();
    durable.at(at(1e9), &note("far")).save().await.unwrap();
    rig.sleep(10.0).await;
    let stats = durable.stats();
    assert_eq!((stats.retried, stats.failed, durable.count().await.unwrap().stored), (1, false, 2));
    durable.stop(Duration::MAX).await;
}
