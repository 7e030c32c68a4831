//! Models of the watchdog: its thread looks at a wheel, while turns change when the next one is due, and the wheel ends.
//!
//! Time does not pass, so each look that is planned for the past is made at once, and all others only after another change.
//! A thread whose wake-up never comes waits for ever, and the model checker notices that.

use std::sync::Arc;
use std::time::Duration;

use super::at;
use super::checker::{check, thread};
use crate::engine::watchdog::{Watch, Watchdog, Watched};
use crate::platform::sync::{AtomicU64, Condvar, Mutex, Ordering, fence, lock};
use crate::wheel::Nanos;

/// A wheel of which only the time of the next turn is known. Nobody turns it.
#[derive(Debug)]
struct Wheel {
    due: AtomicU64,
    /// For which turns it was woken.
    woken_for: Mutex<Vec<Nanos>>,
    woken: Condvar,
}

/// A turn goes on.
const TURNING: u64 = 0;

impl Wheel {
    fn watched() -> (Arc<Self>, Arc<Watch>) {
        let watchdog = Box::leak(Box::new(Watchdog::new(|watchdog| {
            thread::spawn(|| watchdog.watch());
            Ok(())
        })));
        let (due, woken_for, woken) = (AtomicU64::new(TURNING), Mutex::new(Vec::new()), Condvar::new());
        let (wheel, watch) = (Arc::new(Self { due, woken_for, woken }), Arc::new(Watch::default()));
        watch.begin(watchdog, &wheel);
        (wheel, watch)
    }

    /// What an alarm does at the end of a turn.
    fn turn_ends(&self, watch: &Watch, next: Nanos) {
        self.due.swap(next.0, Ordering::AcqRel);
        fence(Ordering::SeqCst);
        assert!(watch.expect(next).is_none(), "there is a thread");
    }

    fn wait_until_woken_for(&self, turn: Nanos) -> usize {
        let mut woken_for = lock(&self.woken_for);
        while !woken_for.contains(&turn) {
            woken_for = self.woken.wait(woken_for).expect("nothing panics under it");
        }
        woken_for.len()
    }
}

impl Watched for Wheel {
    fn turn_due(&self) -> Option<Nanos> {
        Some(Nanos(self.due.load(Ordering::Relaxed))).filter(|due| due.0 != TURNING)
    }

    fn wake_a_worker(&self) {
        lock(&self.woken_for).push(Nanos(self.due.load(Ordering::Relaxed)));
        self.woken.notify_one();
    }
}

/// Turns that were due so long ago that they are late.
fn late() -> [Nanos; 2] {
    [20, 10].map(|millis| at(0).before(Duration::from_millis(millis)))
}

fn a_turn_is_late_while_another_is_looked_at() -> &'static str {
    let ((wheel, watch), [first, second]) = (Wheel::watched(), late());
    wheel.turn_ends(&watch, first);
    // The watchdog may be looking for the first turn until it has read the time of the second.
    wheel.due.swap(TURNING, Ordering::AcqRel);
    wheel.turn_ends(&watch, second);
    let wake_ups = wheel.wait_until_woken_for(second);
    watch.end();
    if wake_ups > 1 { "woken for both" } else { "woken for the second" }
}

/// Fails without either fence, if the watchdog's thread reads when the turn is due before it clears its plan, if it is not
/// notified of a plan, and if no look is planned where the plan is for later.
#[test]
fn a_turn_that_is_late_is_noticed_although_the_one_before_is_just_looked_at() {
    check(["woken for both", "woken for the second"], a_turn_is_late_while_another_is_looked_at);
}

fn a_wheel_ends_while_it_is_looked_at() -> &'static str {
    let ((wheel, watch), [first, _]) = (Wheel::watched(), late());
    let ends = thread::spawn({
        let watch = watch.clone();
        move || watch.end()
    });
    wheel.turn_ends(&watch, first);
    ends.join().unwrap();
    watch.end();
    if lock(&wheel.woken_for).is_empty() { "not woken" } else { "woken" }
}

/// Fails, because the watchdog's thread does not end, if a look is planned for a wheel that has ended, or if it is not told
/// that no wheel is left.
#[test]
fn the_thread_ends_with_the_last_wheel_although_a_look_is_just_planned() {
    check(["not woken", "woken"], a_wheel_ends_while_it_is_looked_at);
}
