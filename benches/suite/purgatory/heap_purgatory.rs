//! A purgatory as Kafka's was before it had a timing wheel: on a heap, purged by count. Either nobody is told of an
//! operation's end, which is only counted, or a task is, as a server has to be that is to answer.

use std::cmp::Ordering as Order;
use std::collections::{BinaryHeap, HashMap};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use timingwheel::wheel::Nanos;
use tokio::sync::oneshot;

use super::TIMEOUT;
use super::operations::SHARED;
use super::replay::{Outcome, Watch};
use super::sleeps::Woken;

/// After so many requests what has ended is taken out, as Kafka's old purgatory did by default.
pub(super) const PURGE_INTERVAL: u32 = 10_000;

/// Who is told of an operation's end.
pub(super) trait Told: Send + Sync + 'static {
    type Listener: Send;

    /// For a task that listens from now on.
    fn new(waker: &Waker) -> (Self, Self::Listener)
    where
        Self: Sized;

    fn tell(&self, is_complete: bool);

    /// The task is woken, and looks.
    fn assert_told(listener: Self::Listener, is_complete: bool, waker: &Waker);
}

impl Told for () {
    type Listener = ();

    fn new(_waker: &Waker) -> ((), ()) {
        ((), ())
    }

    fn tell(&self, _is_complete: bool) {}

    fn assert_told((): (), _is_complete: bool, _waker: &Waker) {}
}

/// A task that waits for what is sent, as one does by hand.
pub(super) type ATask = Mutex<Option<oneshot::Sender<bool>>>;

impl Told for ATask {
    type Listener = oneshot::Receiver<bool>;

    fn new(waker: &Waker) -> (Self, Self::Listener) {
        let (sender, mut receiver) = oneshot::channel();
        assert!(
            Pin::new(&mut receiver).poll(&mut Context::from_waker(waker)).is_pending(),
            "nothing was sent"
        );
        (Self::new(Some(sender)), receiver)
    }

    fn tell(&self, is_complete: bool) {
        let sender = self.lock().expect("no panic under it").take();
        sender.expect("it ends once").send(is_complete).expect("the task listens");
    }

    fn assert_told(mut listener: Self::Listener, is_complete: bool, waker: &Waker) {
        let told = Pin::new(&mut listener).poll(&mut Context::from_waker(waker));
        assert_eq!(told, Poll::Ready(Ok(is_complete)));
    }
}

struct Operation<T> {
    condition: Mutex<Box<dyn FnMut() -> bool + Send>>,
    has_ended: AtomicBool,
    request: u32,
    told: T,
}

impl<T: Told> Operation<T> {
    fn check(&self) -> bool {
        self.is_pending() && (self.condition.lock().expect("no condition panics"))() && self.end(true)
    }

    /// Whether this ends it.
    fn end(&self, is_complete: bool) -> bool {
        let is_first = !self.has_ended.swap(true, Ordering::AcqRel);
        if is_first {
            self.told.tell(is_complete);
        }
        is_first
    }

    fn is_pending(&self) -> bool {
        !self.has_ended.load(Ordering::Acquire)
    }
}

/// In a heap the greatest comes first: the one with the earliest deadline.
struct Delayed<T> {
    deadline: Nanos,
    operation: Arc<Operation<T>>,
}

impl<T> Ord for Delayed<T> {
    fn cmp(&self, other: &Self) -> Order {
        other.deadline.cmp(&self.deadline)
    }
}

impl<T> PartialOrd for Delayed<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Order> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Delayed<T> {
    fn eq(&self, other: &Self) -> bool {
        self.deadline == other.deadline
    }
}

impl<T> Eq for Delayed<T> {}

pub(super) struct HeapPurgatory<T: Told> {
    delayed: Mutex<BinaryHeap<Delayed<T>>>,
    watched: Mutex<HashMap<u32, Vec<Arc<Operation<T>>>>>,
    /// What conditions look at, for each request.
    are_complete: Arc<[AtomicBool]>,
    /// In a ring, as the futures of our purgatory stand.
    listeners: Vec<Option<T::Listener>>,
    waker: Waker,
    arrived: u32,
    outcome: Outcome,
}

/// Whose end nobody is told of.
pub(super) type Untold = HeapPurgatory<()>;
/// Each with a task that waits for its end.
pub(super) type ToldByTask = HeapPurgatory<ATask>;

impl<T: Told> HeapPurgatory<T> {
    fn purge(&self) {
        let mut watched = self.watched.lock().expect("no panic under it");
        watched.retain(|_, operations| {
            operations.retain(|operation| operation.is_pending());
            !operations.is_empty()
        });
        self.delayed.lock().expect("no panic under it").retain(|delayed| delayed.operation.is_pending());
    }

    fn listener(&mut self, request: u32) -> &mut Option<T::Listener> {
        let size = self.listeners.len();
        &mut self.listeners[request as usize % size]
    }
}

impl<T: Told> Watch for HeapPurgatory<T> {
    fn new(requests: usize, pending: usize) -> Self {
        Self {
            delayed: Mutex::new(BinaryHeap::with_capacity(pending)),
            watched: Mutex::default(),
            are_complete: (0..requests).map(|_| AtomicBool::new(false)).collect(),
            listeners: (0..pending).map(|_| None).collect(),
            waker: Arc::<Woken>::default().into(),
            arrived: 0,
            outcome: Outcome::default(),
        }
    }

    fn arrive(&mut self, now: Nanos) {
        let (request, are_complete) = (self.arrived, self.are_complete.clone());
        let condition = Box::new(move || are_complete[request as usize].load(Ordering::Relaxed));
        let (told, listener) = T::new(&self.waker);
        let operation = Arc::new(Operation {
            condition: Mutex::new(condition),
            has_ended: AtomicBool::new(false),
            request,
            told,
        });
        assert!(!operation.check(), "it is complete later");
        for key in [request, SHARED] {
            let mut watched = self.watched.lock().expect("no panic under it");
            watched.entry(key).or_default().push(operation.clone());
        }
        assert!(!operation.check(), "it is complete later");
        let delayed = Delayed { deadline: now.after(TIMEOUT), operation };
        self.delayed.lock().expect("no panic under it").push(delayed);
        assert!(self.listener(request).replace(listener).is_none(), "no place is free");
        self.arrived += 1;
        if self.arrived.is_multiple_of(PURGE_INTERVAL) {
            self.purge();
        }
    }

    fn complete(&mut self, request: u32, _now: Nanos) {
        self.are_complete[request as usize].store(true, Ordering::Relaxed);
        let operations = self.watched.lock().expect("no panic under it").remove(&request);
        // A request has its key for itself, so nothing else is under it.
        for operation in operations.unwrap_or_default() {
            if operation.check() {
                self.outcome.completed += 1;
                let listener = self.listener(request).take().expect("it was not told before");
                T::assert_told(listener, true, &self.waker);
            }
        }
    }

    async fn turn(&mut self, now: Nanos) {
        let mut due = Vec::new();
        let mut delayed = self.delayed.lock().expect("no panic under it");
        while delayed.peek().is_some_and(|first| first.deadline <= now) {
            due.extend(delayed.pop());
        }
        drop(delayed);
        for Delayed { operation, .. } in due {
            if operation.end(false) {
                self.outcome.timed_out += 1;
                let listener = self.listener(operation.request).take().expect("it was not told before");
                T::assert_told(listener, false, &self.waker);
            }
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
