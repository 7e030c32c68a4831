//! Far timers that something outside tells of.

use std::sync::{Arc, Mutex};

use timingwheel_durable::store::Near;
use timingwheel_durable::{CallBack, Cancelled, Durable, MemoryStore, Outside};

use self::store::OutsideStore;
use super::support::{Rig, at, note, secs};

const HOUR: f64 = 3_600.0;

#[path = "../../../examples/outside/store.rs"]
mod store;

async fn outside_store(rig: &Rig) -> OutsideStore {
    let builder = Durable::builder(&rig.wheel, MemoryStore::new()).clock(rig.clock.clone());
    OutsideStore::start(builder).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn what_is_far_is_handed_over_and_called_back_without_a_scan_of_the_store() {
    let rig = Rig::new();
    let outside = outside_store(&rig).await;
    let durable = rig.builder().outside(outside.clone(), secs(86_400)).start().await.unwrap();
    rig.sleep(1.0).await;
    let loads = durable.stats().loads;
    for (hour, key) in [(2.0, "fires"), (3.0, "cancelled"), (4.0, "moved"), (5.0, "last")] {
        durable.at(at(hour * HOUR), &note(key)).key(key).save().await.unwrap();
    }
    rig.sleep(1.0).await;
    assert_eq!((outside.durable().count().await.unwrap().stored, durable.stats().armed), (4, 0));
    assert_eq!(durable.cancel("cancelled").await.unwrap(), Cancelled::Removed);
    durable.reschedule("moved", at(1.0 * HOUR)).await.unwrap();
    rig.sleep(1.0).await;
    // Of what was moved it knows both places.
    assert_eq!(outside.durable().count().await.unwrap().stored, 4);
    rig.sleep(6.0 * HOUR).await;
    let times: Vec<(String, f64)> =
        rig.book.times().into_iter().map(|(text, time)| (text, time / HOUR)).collect();
    let expected = [("moved", 1.0), ("fires", 2.0), ("last", 5.0)];
    for ((text, time), (expected, due)) in times.iter().zip(expected) {
        assert!(text == expected && (due..due + 1e-5).contains(time), "{times:?}");
    }
    assert_eq!((times.len(), durable.stats().loads - loads), (3, 0));
    assert_eq!(outside.durable().count().await.unwrap(), Default::default());
}

/// Remembers what it was told, and calls nobody.
#[derive(Clone, Default)]
struct Idle {
    call_back: Arc<Mutex<Option<CallBack>>>,
    far: Arc<Mutex<Vec<Near>>>,
    taken_back: Arc<Mutex<Vec<Near>>>,
    panics: bool,
}

impl Outside for Idle {
    fn begins(&self, call_back: CallBack) {
        *self.call_back.lock().unwrap() = Some(call_back);
    }

    fn hand_over(&self, far: Vec<Near>) {
        self.far.lock().unwrap().extend(far);
        assert!(!self.panics, "as it should");
    }

    fn forget(&self, timers: Vec<Near>) {
        self.taken_back.lock().unwrap().extend(timers);
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_back_that_is_lost_is_found_by_the_scan() {
    for panics in [false, true] {
        let rig = Rig::new();
        let idle = Idle { panics, ..Idle::default() };
        let durable = rig.builder().outside(idle.clone(), secs(3_600)).start().await.unwrap();
        rig.sleep(1.0).await;
        for hours in [2.5, 2.9, 40.0] {
            durable.at(at(hours * HOUR), &note(&hours.to_string())).save().await.unwrap();
        }
        rig.sleep(42.0 * HOUR).await;
        assert_eq!(idle.far.lock().unwrap().len(), 3);
        assert_eq!(idle.taken_back.lock().unwrap().len(), 3, "when they were near");
        let times = rig.book.times();
        assert_eq!(times.len(), 3);
        for (text, time) in times {
            let due = text.parse::<f64>().unwrap() * HOUR;
            assert!(time >= due && time <= due + HOUR + 1.0, "due at {due}, called at {time}");
        }
        // None between the scans, and none of them while nothing could be near.
        assert!(durable.stats().loads <= 45, "{:?}", durable.stats());
    }
}

#[tokio::test(start_paused = true)]
async fn call_backs_may_come_early_twice_and_for_what_is_gone() {
    let rig = Rig::new();
    let idle = Idle::default();
    let durable = rig.builder().outside(idle.clone(), secs(86_400)).start().await.unwrap();
    rig.sleep(1.0).await;
    for key in ["fires", "cancelled"] {
        durable.at(at(HOUR), &note(key)).key(key).save().await.unwrap();
    }
    rig.sleep(1.0).await;
    let far = idle.far.lock().unwrap().clone();
    let call_back = idle.call_back.lock().unwrap().clone().unwrap();
    assert!((far.len(), call_back.ahead()) == (2, secs(30)));
    assert!(call_back.near(far.clone()));
    rig.sleep(1.0).await;
    assert_eq!(idle.far.lock().unwrap().len(), 4, "too early, and handed over again");
    durable.cancel("cancelled").await.unwrap();
    rig.sleep(HOUR - 33.0).await;
    for _ in 0..3 {
        assert!(call_back.near(far.clone()));
    }
    rig.sleep(20.0).await;
    assert_eq!(rig.book.texts(), [""; 0], "not before its time");
    rig.sleep(20.0).await;
    assert!(call_back.near(far.clone()));
    rig.sleep(20.0).await;
    assert_eq!(rig.book.texts(), ["fires"]);
    durable.stop(secs(1)).await;
    assert!(!call_back.near(far), "nobody hears it");
}
