//! An operation of a `Purgatory` for each request.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use timingwheel::TimingWheel;
use timingwheel::wheel::Nanos;
use timingwheel_purgatory::{Purgatory, Watch as Operation, WatchError};
use tokio::task::yield_now;

use super::TIMEOUT;
use super::replay::{Outcome, Watch};
use super::sleeps::{Asked, Woken, check_not_early};

/// The key that all share, and nobody checks.
pub(super) const SHARED: u32 = u32::MAX;

/// Futures stand in a ring, as sleeps do.
pub(super) struct Operations {
    purgatory: Purgatory<u32>,
    /// What their conditions look at, for each request.
    are_complete: Arc<[AtomicBool]>,
    ring: Vec<Option<Place>>,
    /// Requests before this one are at their end.
    oldest: usize,
    arrived: usize,
    begin: Instant,
    woken: Arc<Woken>,
    waker: Waker,
    outcome: Outcome,
}

struct Place {
    started: Nanos,
    operation: Operation<()>,
}

impl Place {
    fn poll(&mut self, waker: &Waker) -> Poll<Result<(), WatchError>> {
        Pin::new(&mut self.operation).poll(&mut Context::from_waker(waker))
    }
}

impl Watch for Operations {
    fn new(requests: usize, pending: usize) -> Self {
        let woken = Arc::new(Woken::default());
        Self {
            purgatory: Purgatory::new(&<TimingWheel as Asked>::start()),
            are_complete: (0..requests).map(|_| AtomicBool::new(false)).collect(),
            ring: (0..pending).map(|_| None).collect(),
            oldest: 0,
            arrived: 0,
            begin: Instant::now(),
            waker: woken.clone().into(),
            woken,
            outcome: Outcome::default(),
        }
    }

    fn arrive(&mut self, now: Nanos) {
        let size = self.ring.len();
        assert!(self.arrived - self.oldest < size, "no place is free");
        let (request, are_complete) = (self.arrived, self.are_complete.clone());
        let key = u32::try_from(request).expect("few enough requests");
        let operation = self.purgatory.watch([key, SHARED], TIMEOUT, move || {
            are_complete[request].load(Ordering::Relaxed).then_some(())
        });
        let mut place = Place { started: now, operation };
        assert!(place.poll(&self.waker).is_pending(), "the timer was not registered");
        self.ring[request % size] = Some(place);
        self.arrived += 1;
    }

    fn complete(&mut self, request: u32, _now: Nanos) {
        let (nth, size) = (request as usize, self.ring.len());
        if nth < self.oldest {
            return;
        }
        self.are_complete[nth].store(true, Ordering::Relaxed);
        assert_eq!(self.purgatory.check(&request), 1, "it has not expired, as it was not polled since");
        let mut place = self.ring[nth % size].take().expect("it arrived, and is not complete");
        assert_eq!(place.poll(&self.waker), Poll::Ready(Ok(())));
        self.outcome.completed += 1;
    }

    async fn turn(&mut self, _now: Nanos) {
        yield_now().await;
        let size = self.ring.len();
        while self.oldest < self.arrived {
            let place = &mut self.ring[self.oldest % size];
            if let Some(pending) = place {
                match pending.poll(&self.waker) {
                    Poll::Pending => break,
                    Poll::Ready(outcome) => assert_eq!(outcome, Err(WatchError::Expired)),
                }
                self.outcome.timed_out += 1;
                check_not_early(self.begin, pending.started);
                *place = None;
            }
            self.oldest += 1;
        }
    }

    fn overdue_since(&self, now: Nanos) -> Nanos {
        if self.oldest == self.arrived {
            return now;
        }
        let oldest = self.ring[self.oldest % self.ring.len()].as_ref();
        oldest.map_or(now, |place| place.started.after(TIMEOUT).min(now))
    }

    fn outcome(&self) -> Outcome {
        let Outcome { completed, timed_out } = self.outcome;
        let woken = self.woken.count();
        // Before that, some may have been woken that have yet to be polled.
        let is_over = completed + timed_out == self.arrived;
        assert!(!is_over || woken <= self.arrived, "{woken} were woken: {:?}", self.outcome);
        self.outcome
    }
}
