//! A purgatory as Kafka's was before it had a timing wheel: on a heap, purged by count.

use std::cmp::Ordering as Order;
use std::collections::{BinaryHeap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use timingwheel::wheel::Nanos;

use super::TIMEOUT;
use super::operations::SHARED;
use super::replay::{Outcome, Watch};

/// After so many requests what has ended is taken out, as Kafka's old purgatory did by default.
pub(super) const PURGE_INTERVAL: u32 = 10_000;

struct Operation {
    condition: Mutex<Box<dyn FnMut() -> bool + Send>>,
    has_ended: AtomicBool,
}

impl Operation {
    fn check(&self) -> bool {
        self.is_pending() && (self.condition.lock().expect("no condition panics"))() && self.end()
    }

    /// Whether this ends it.
    fn end(&self) -> bool {
        !self.has_ended.swap(true, Ordering::AcqRel)
    }

    fn is_pending(&self) -> bool {
        !self.has_ended.load(Ordering::Acquire)
    }
}

/// In a heap the greatest comes first: the one with the earliest deadline.
struct Delayed {
    deadline: Nanos,
    operation: Arc<Operation>,
}

impl Ord for Delayed {
    fn cmp(&self, other: &Self) -> Order {
        other.deadline.cmp(&self.deadline)
    }
}

impl PartialOrd for Delayed {
    fn partial_cmp(&self, other: &Self) -> Option<Order> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Delayed {
    fn eq(&self, other: &Self) -> bool {
        self.deadline == other.deadline
    }
}

impl Eq for Delayed {}

pub(super) struct HeapPurgatory {
    delayed: Mutex<BinaryHeap<Delayed>>,
    watched: Mutex<HashMap<u32, Vec<Arc<Operation>>>>,
    /// What conditions look at, for each request.
    are_complete: Arc<[AtomicBool]>,
    arrived: u32,
    outcome: Outcome,
}

impl HeapPurgatory {
    fn purge(&self) {
        let mut watched = self.watched.lock().expect("no panic under it");
        watched.retain(|_, operations| {
            operations.retain(|operation| operation.is_pending());
            !operations.is_empty()
        });
        self.delayed.lock().expect("no panic under it").retain(|delayed| delayed.operation.is_pending());
    }
}

impl Watch for HeapPurgatory {
    fn new(requests: usize, pending: usize) -> Self {
        Self {
            delayed: Mutex::new(BinaryHeap::with_capacity(pending)),
            watched: Mutex::default(),
            are_complete: (0..requests).map(|_| AtomicBool::new(false)).collect(),
            arrived: 0,
            outcome: Outcome::default(),
        }
    }

    fn arrive(&mut self, now: Nanos) {
        let (request, are_complete) = (self.arrived, self.are_complete.clone());
        let condition = Box::new(move || are_complete[request as usize].load(Ordering::Relaxed));
        let operation =
            Arc::new(Operation { condition: Mutex::new(condition), has_ended: AtomicBool::new(false) });
        assert!(!operation.check(), "it is complete later");
        for key in [request, SHARED] {
            let mut watched = self.watched.lock().expect("no panic under it");
            watched.entry(key).or_default().push(operation.clone());
        }
        assert!(!operation.check(), "it is complete later");
        let delayed = Delayed { deadline: now.after(TIMEOUT), operation };
        self.delayed.lock().expect("no panic under it").push(delayed);
        self.arrived += 1;
        if self.arrived.is_multiple_of(PURGE_INTERVAL) {
            self.purge();
        }
    }

    fn complete(&mut self, request: u32, _now: Nanos) {
        self.are_complete[request as usize].store(true, Ordering::Relaxed);
        let mut watched = self.watched.lock().expect("no panic under it");
        // A request has its key for itself, so nothing else is under it.
        for operation in watched.remove(&request).unwrap_or_default() {
            self.outcome.completed += usize::from(operation.check());
        }
    }

    async fn turn(&mut self, now: Nanos) {
        let mut delayed = self.delayed.lock().expect("no panic under it");
        while let Some(first) = delayed.peek()
            && first.deadline <= now
        {
            let first = delayed.pop().expect("it was just seen");
            self.outcome.timed_out += usize::from(first.operation.end());
        }
    }

    fn overdue_since(&self, now: Nanos) -> Nanos {
        // Each turn fires all that is due.
        now
    }

    fn outcome(&self) -> Outcome {
        self.outcome
    }
}
