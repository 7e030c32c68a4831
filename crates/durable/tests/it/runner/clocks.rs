//! Clocks that are set, and machines that sleep.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;

use jiff::Timestamp;
use timingwheel_durable::{Clock, SetClock};

use super::support::{Rig, at, note};

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_forward_makes_due_what_it_has_passed() {
    let rig = Rig::new();
    let durable = rig.start().await;
    durable.at(at(50.0), &note("near")).save().await.unwrap();
    durable.at(at(3_000.0), &note("far")).save().await.unwrap();
    durable.at(at(9_000.0), &note("later")).save().await.unwrap();
    rig.sleep(1.0).await;
    rig.clock.set(at(3_601.0));
    // It is noticed within a minute, as something is armed.
    rig.sleep(61.0).await;
    assert_eq!(rig.book.texts(), ["near", "far"]);
    assert_eq!(durable.stats().clock_set, 1);
    // With nothing armed, within five.
    rig.clock.set(at(9_000.0));
    rig.sleep(301.0).await;
    assert_eq!(rig.book.texts(), ["near", "far", "later"]);
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_back_makes_nothing_early_and_nothing_twice() {
    let rig = Rig::new();
    let durable = rig.start().await;
    for due in [10.0, 50.0] {
        durable.at(at(due), &note(&due.to_string())).save().await.unwrap();
    }
    rig.sleep(20.0).await;
    assert_eq!(rig.book.texts(), ["10"]);
    rig.clock.set(at(-3_580.0));
    rig.sleep(3_500.0).await;
    assert_eq!(rig.book.texts(), ["10"]);
    rig.sleep(200.0).await;
    let times = rig.book.times();
    assert_eq!(times.len(), 2);
    assert!((50.0..50.1).contains(&times[1].1), "{times:?}");
    assert_eq!(durable.stats().clock_set, 1);
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_drifts_makes_nothing_early() {
    let rig = Rig::new();
    let durable = rig.start().await;
    durable.at(at(1_000.0), &note("a")).save().await.unwrap();
    // A hundredth slower than the one that only counts.
    for step in 1..1_100 {
        rig.sleep(1.0).await;
        rig.clock.set(at(f64::from(step) * 0.99));
    }
    let times = rig.book.times();
    assert_eq!(times.len(), 1);
    assert!((1_000.0..1_001.0).contains(&times[0].1), "{times:?}");
    drop(durable);
}

/// Counts how often it is read.
struct Counted(SetClock, Arc<AtomicU64>);

impl Clock for Counted {
    fn now(&self) -> Timestamp {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.now()
    }

    fn wake_when_set(&self, waker: &Waker) -> bool {
        self.0.wake_when_set(waker)
    }
}

#[tokio::test(start_paused = true)]
async fn on_a_paused_clock_a_month_takes_as_many_turns_as_things_are_due() {
    let (rig, readings) = (Rig::new(), Arc::new(AtomicU64::new(0)));
    let clock = Counted(rig.clock.clone(), readings.clone());
    let durable = rig.builder().clock(clock).start().await.unwrap();
    durable.at(at(30.0 * 86_400.0), &note("a month")).save().await.unwrap();
    rig.sleep(31.0 * 86_400.0).await;
    assert_eq!(rig.book.texts(), ["a month"]);
    let readings = readings.load(Ordering::Relaxed);
    assert!(readings < 500, "{readings} readings");
}
