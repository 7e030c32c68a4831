//! A sleep for each request, which the runtime fires.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::Instant;

use timingwheel::TimingWheel;
use timingwheel::wheel::Nanos;
use tokio::task::yield_now;

use super::replay::{Outcome, Watch};
use super::{SLOTS, TIMEOUT};
use crate::sides::{Timer, Tokio};

/// A timer whose sleeps can be asked.
pub(super) trait Asked: Timer {
    /// Called within the runtime.
    fn start() -> Self;
    fn is_elapsed(sleep: &Self::Sleep) -> bool;
}

impl Asked for TimingWheel {
    fn start() -> Self {
        // The tick is 1 ms if nothing is set.
        Self::builder().wheel_size(SLOTS).shards(1).build().expect("a wheel")
    }

    fn is_elapsed(sleep: &Self::Sleep) -> bool {
        sleep.is_elapsed()
    }
}

impl Asked for Tokio {
    fn start() -> Self {
        Self
    }

    fn is_elapsed(sleep: &Self::Sleep) -> bool {
        sleep.is_elapsed()
    }
}

/// Counts how often somebody was woken.
#[derive(Debug, Default)]
pub(super) struct Woken(AtomicUsize);

impl Woken {
    pub(super) fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Relaxed: only the number counts, which is read when all is over.
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Sleeps stand in a ring, in places that are made before the run. So no memory is given out in it, as there is none
/// either where a sleep is a part of a task that is there anyway.
pub(super) struct Sleeps<T: Asked> {
    timer: T,
    ring: Vec<Place<T>>,
    /// Requests before this one are at their end.
    oldest: usize,
    arrived: usize,
    begin: Instant,
    fired: Arc<Woken>,
    waker: Waker,
    outcome: Outcome,
}

struct Place<T: Asked> {
    started: Nanos,
    sleep: Pin<Box<Option<T::Sleep>>>,
}

impl<T: Asked> Sleeps<T> {
    /// Takes out what has fired. All timeouts are alike, so the oldest request is the first whose timer fires.
    fn take_fired(&mut self) {
        let size = self.ring.len();
        while self.oldest < self.arrived {
            let place = &mut self.ring[self.oldest % size];
            if let Some(sleep) = place.sleep.as_ref().as_pin_ref() {
                if !T::is_elapsed(&sleep) {
                    break;
                }
                self.outcome.timed_out += 1;
                check_not_early(self.begin, place.started);
                place.sleep.set(None);
            }
            self.oldest += 1;
        }
    }
}

/// The clock is read anew, as a timer may have fired after the time by which the run goes.
pub(super) fn check_not_early(begin: Instant, started: Nanos) {
    assert!(begin.elapsed() >= started.to_duration() + TIMEOUT, "a timer was early");
}

impl<T: Asked> Watch for Sleeps<T> {
    fn new(_requests: usize, pending: usize) -> Self {
        let fired = Arc::new(Woken::default());
        Self {
            timer: T::start(),
            ring: (0..pending).map(|_| Place { started: Nanos::ZERO, sleep: Box::pin(None) }).collect(),
            oldest: 0,
            arrived: 0,
            begin: Instant::now(),
            waker: fired.clone().into(),
            fired,
            outcome: Outcome::default(),
        }
    }

    fn arrive(&mut self, now: Nanos) {
        let size = self.ring.len();
        assert!(self.arrived - self.oldest < size, "no place is free");
        let place = &mut self.ring[self.arrived % size];
        self.arrived += 1;
        place.started = now;
        place.sleep.set(Some(self.timer.sleep(TIMEOUT)));
        let sleep = place.sleep.as_mut().as_pin_mut().expect("it was just set");
        assert!(
            sleep.poll(&mut Context::from_waker(&self.waker)).is_pending(),
            "the timer was not registered"
        );
    }

    fn complete(&mut self, request: u32, _now: Nanos) {
        let (request, size) = (request as usize, self.ring.len());
        if request < self.oldest {
            return;
        }
        let place = &mut self.ring[request % size];
        let sleep = place.sleep.as_ref().as_pin_ref().expect("it arrived, and is not complete");
        if T::is_elapsed(&sleep) {
            self.outcome.timed_out += 1;
            check_not_early(self.begin, place.started);
        } else {
            self.outcome.completed += 1;
        }
        place.sleep.set(None);
    }

    async fn turn(&mut self, _now: Nanos) {
        yield_now().await;
        self.take_fired();
    }

    fn overdue_since(&self, now: Nanos) -> Nanos {
        if self.oldest == self.arrived {
            return now;
        }
        self.ring[self.oldest % self.ring.len()].started.after(TIMEOUT).min(now)
    }

    fn outcome(&self) -> Outcome {
        // Fewer, because a sleep is elapsed from when the runtime has come to its time, and may be dropped before it is
        // its waker's turn.
        let fired = self.fired.count();
        assert!(fired <= self.outcome.timed_out, "{fired} timers fired: {:?}", self.outcome);
        self.outcome
    }
}
