//! What an operation has completed with goes to its future, or back to where it came from: `model` and `racing` have more
//! of that.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use timingwheel_purgatory::{Purgatory, Watch};
use tokio::select;
use tokio_test::task::spawn;
use tokio_test::{assert_pending, assert_ready_eq};

use crate::{DAY, counts, purgatory};

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
async fn code_that_panics_as_it_takes_something_back_harms_nobody_else() {
    let purgatory = purgatory();
    let watch = purgatory.watch(["key"], DAY, || Some(())).give_back(|()| panic!("no room"));
    drop(watch);
    assert_eq!(purgatory.watch(["key"], DAY, || Some(())).await, Ok(()));
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
