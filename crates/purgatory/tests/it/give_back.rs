//! What an operation has completed with goes to its future, or back to where it came from.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use timingwheel_purgatory::{Purgatory, Watch, WatchError};
use tokio::select;
use tokio_test::task::spawn;
use tokio_test::{assert_pending, assert_ready_eq};

use crate::{DAY, counts, ms, purgatory};

const HANG_GUARD: Duration = Duration::from_secs(60);

/// A queue that is popped by conditions.
#[derive(Clone)]
struct Queue {
    items: Arc<Mutex<VecDeque<u32>>>,
    purgatory: Purgatory<&'static str>,
}

impl Queue {
    fn new() -> Self {
        Self { items: Arc::default(), purgatory: purgatory() }
    }

    fn push(&self, item: u32) -> usize {
        self.items.lock().unwrap().push_back(item);
        self.purgatory.check("queue")
    }

    fn len(&self) -> usize {
        self.items.lock().unwrap().len()
    }

    /// Pops an item; one that its caller does not get is put back.
    fn pop(&self) -> Watch<u32> {
        let (from, to) = (self.clone(), self.clone());
        self.purgatory
            .watch(["queue"], DAY, move || from.items.lock().unwrap().pop_front())
            .give_back(move |item| _ = to.push(item))
    }
}

#[tokio::test(start_paused = true)]
async fn no_item_that_a_condition_has_popped_is_lost_when_select_drops_its_future() {
    let queue = Queue::new();
    for item in 0..100 {
        let pushed = async {
            tokio::task::yield_now().await;
            queue.push(item)
        };
        select! {
            biased;
            completed = pushed => assert_eq!(completed, 1),
            item = queue.pop() => panic!("{item:?} came first"),
        }
        assert_eq!(queue.pop().await, Ok(item));
    }
    assert_eq!((queue.len(), counts(&queue.purgatory)), (0, (0, 0)));
}

#[tokio::test(start_paused = true)]
async fn what_is_given_back_completes_the_next_operation() {
    let queue = Queue::new();
    let (first, mut second) = (queue.pop(), spawn(queue.pop()));
    assert_pending!(second.poll());
    assert_eq!((queue.push(7), queue.len(), second.is_woken()), (1, 0, false));
    drop(first);
    assert!(second.is_woken());
    assert_ready_eq!(second.poll(), Ok(7));
}

#[tokio::test(start_paused = true)]
async fn what_holds_at_once_is_given_back_by_a_future_that_nobody_polls() {
    let queue = Queue::new();
    queue.push(7);
    let watch = queue.pop();
    assert_eq!(queue.len(), 0);
    drop(watch);
    assert_eq!(queue.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_the_future_has_returned_is_not_given_back_nor_is_what_never_was() {
    let queue = Queue::new();
    queue.push(7);
    let mut watch = queue.pop();
    assert_eq!((&mut watch).await, Ok(7));
    drop(watch);
    drop(queue.pop());
    let mut cancelled = queue.pop();
    queue.purgatory.cancel("queue");
    assert_eq!((&mut cancelled).await, Err(WatchError::Cancelled));
    drop(cancelled);
    let mut expired = queue.purgatory.watch([], ms(1), || None::<()>).give_back(|()| unreachable!());
    assert_eq!((&mut expired).await, Err(WatchError::Expired));
    drop(expired);
    assert_eq!((queue.len(), counts(&queue.purgatory)), (0, (0, 0)));
}

#[tokio::test(start_paused = true)]
async fn a_waiter_by_reference_that_is_dropped_loses_nothing() {
    let queue = Queue::new();
    let mut watch = queue.pop();
    select! {
        biased;
        completed = async { queue.push(7) } => assert_eq!(completed, 1),
        _ = &mut watch => unreachable!("the other branch comes first"),
    }
    assert_eq!(watch.await, Ok(7));
}

#[tokio::test(start_paused = true)]
async fn code_that_panics_as_it_takes_something_back_harms_nobody_else() {
    let purgatory = purgatory();
    let watch = purgatory.watch(["key"], DAY, || Some(())).give_back(|()| panic!("no room"));
    drop(watch);
    assert_eq!(purgatory.watch(["key"], DAY, || Some(())).await, Ok(()));
}

#[tokio::test]
async fn an_item_that_another_thread_pops_as_the_future_is_dropped_is_given_back_there() {
    let purgatory: Purgatory<u8> = purgatory();
    let ((begun, begins), (goes_on, go_on)) = (channel(), channel());
    let mut tries = 0;
    let condition = move || {
        tries += 1;
        // Twice by `watch`, before and after it is in its list.
        (tries == 3).then(|| {
            begun.send(()).unwrap();
            go_on.recv_timeout(HANG_GUARD).unwrap();
            thread::current().id()
        })
    };
    let (gave_back, given_back) = channel();
    let give_back = move |by| gave_back.send((by, thread::current().id())).unwrap();
    let watch = purgatory.watch([1], DAY, condition).give_back(give_back);
    let check = thread::spawn({
        let purgatory = purgatory.clone();
        move || (purgatory.check(&1), thread::current().id())
    });
    begins.recv_timeout(HANG_GUARD).unwrap();
    drop(watch);
    assert!(given_back.try_recv().is_err(), "it is not known yet whether it holds");
    goes_on.send(()).unwrap();
    let (completed, checker) = check.join().unwrap();
    assert_eq!((completed, given_back.try_recv()), (1, Ok((checker, checker))));
    assert_eq!(counts(&purgatory), (0, 0));
}

/// Where the clock runs, the wheel's entry keeps an operation for up to a second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nobody_wants_back_is_dropped_with_its_future() {
    let purgatory = purgatory();
    let permit = Arc::new(());
    let changed = Arc::new(AtomicBool::new(false));
    let condition = {
        let (mut handed_out, changed) = (Some(permit.clone()), changed.clone());
        move || if changed.load(Ordering::SeqCst) { handed_out.take() } else { None }
    };
    let watch = purgatory.watch(["key"], DAY, condition);
    changed.store(true, Ordering::SeqCst);
    assert_eq!(purgatory.check("key"), 1);
    drop(watch);
    assert_eq!(Arc::strong_count(&permit), 1);
}
