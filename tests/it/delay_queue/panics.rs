//! Users' code panics: an item when it is dropped, a waker when it is woken. The queue is whole after that.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};

use timingwheel::time::DelayQueue;
use tokio::time::Instant;
use tokio_test::task::spawn;
use tokio_test::{assert_pending, assert_ready};

use super::*;

/// Counts its drops, and panics in that if it is told to.
#[derive(Debug)]
struct Item {
    drops: Rc<Cell<u32>>,
    panics: bool,
}

impl Drop for Item {
    fn drop(&mut self) {
        self.drops.set(self.drops.get() + 1);
        assert!(!self.panics, "an item panics");
    }
}

/// Ten items, due and not, the fifth of which panics when it is dropped.
fn filled(drops: &Rc<Cell<u32>>) -> DelayQueue<Item> {
    let mut queue = DelayQueue::new();
    for n in 0..10 {
        let item = Item { drops: drops.clone(), panics: n == 4 };
        queue.insert(item, if n % 2 == 0 { Duration::ZERO } else { ms(n) });
    }
    queue
}

#[tokio::test(start_paused = true)]
async fn clear_drops_each_item_once_and_leaves_a_usable_queue() {
    let drops = Rc::default();
    let mut queue = spawn(filled(&drops));
    // Some are among the due.
    assert!(assert_ready!(poll(&mut queue)).is_some());
    assert!(catch_unwind(AssertUnwindSafe(|| queue.clear())).is_err());
    assert_eq!((drops.get(), queue.len(), queue.peek()), (10, 0, None));
    assert!(assert_ready!(poll(&mut queue)).is_none());
    for _ in 0..20 {
        queue.insert(Item { drops: drops.clone(), panics: false }, ms(1));
    }
    assert_eq!(drain(&mut queue).await.len(), 20);
    assert_eq!(drops.get(), 30);
}

#[tokio::test(start_paused = true)]
async fn clear_wakes_who_waits_also_if_an_item_panics() {
    let drops = Rc::default();
    let mut queue = spawn(DelayQueue::new());
    queue.insert(Item { drops: Rc::clone(&drops), panics: true }, ms(100));
    assert_pending!(poll(&mut queue));
    assert!(catch_unwind(AssertUnwindSafe(|| queue.clear())).is_err());
    assert!(queue.is_woken());
}

#[tokio::test(start_paused = true)]
async fn what_is_not_taken_from_a_drain_is_dropped_once_and_the_queue_is_usable_meanwhile() {
    let drops = Rc::default();
    let mut queue = filled(&drops);
    let mut drained = queue.drain();
    drop(drained.next());
    queue.insert(Item { drops: drops.clone(), panics: false }, ms(1));
    assert_eq!((drops.get(), queue.len()), (1, 1));
    assert!(catch_unwind(AssertUnwindSafe(|| drop(drained))).is_err());
    assert_eq!((drops.get(), queue.len()), (10, 1));
    assert_eq!(drain(&mut queue).await.len(), 1);
}

struct Panics(AtomicBool);

impl Panics {
    fn has_panicked(&self) -> bool {
        !self.0.load(Ordering::SeqCst)
    }
}

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        assert!(!self.0.swap(false, Ordering::SeqCst), "a waker panics");
    }
}

#[tokio::test(start_paused = true)]
async fn a_waker_that_panics_loses_no_item() {
    let changes: [fn(&mut DelayQueue<u32>); 8] = [
        |queue| _ = queue.insert(2, Duration::ZERO),
        |queue| _ = queue.insert_at(2, Instant::now() - ms(1)),
        |queue| {
            let key = queue.peek().unwrap();
            queue.insert(2, DAY);
            queue.reset(&key, Duration::ZERO);
        },
        DelayQueue::clear,
        // The item that the queue returns is not lost either.
        |queue| assert_eq!(queue.try_remove(&queue.peek().unwrap()).map(Expired::into_inner), Some(1)),
        |queue| assert_eq!(queue.remove(&queue.peek().unwrap()).into_inner(), 1),
        |queue| assert_eq!(queue.drain().map(Expired::into_inner).collect::<Vec<_>>(), [1]),
        |queue| {
            queue.clear();
            let panics = Arc::new(Panics(AtomicBool::new(true)));
            let told = queue.poll_expired(&mut Context::from_waker(&Waker::from(panics.clone())));
            assert!(assert_ready!(told).is_none());
            let key = queue.insert(2, ms(100));
            assert_eq!((panics.has_panicked(), queue.peek()), (true, Some(key)));
        },
    ];
    for (change, left) in changes.into_iter().zip([2, 2, 2, 0, 0, 0, 0, 1]) {
        let mut queue = DelayQueue::new();
        queue.insert(1, ms(100));
        let panics = Arc::new(Panics(AtomicBool::new(true)));
        let waker = Waker::from(panics.clone());
        assert_pending!(queue.poll_expired(&mut Context::from_waker(&waker)));
        change(&mut queue);
        assert!(panics.has_panicked(), "the task is woken");
        assert_eq!(queue.len(), left);
        assert_eq!(drain(&mut queue).await.len(), left);
    }
}

/// The line that a panic in `f` names.
fn line_named(f: impl FnOnce()) -> u32 {
    let panic = crate::panic_place::panic_in(f).unwrap();
    assert_eq!(panic.file, file!());
    panic.line
}

#[test]
fn a_panic_names_its_caller() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let mut queue = DelayQueue::new();
    let key = runtime.block_on(async {
        let key = queue.insert(1, ms(1));
        queue.clear();
        key
    });
    let mut empty = DelayQueue::<u32>::new();
    assert_eq!(line_named(|| _ = empty.insert(1, ms(1))), line!());
    assert_eq!(line_named(|| _ = empty.insert_at(1, Instant::now())), line!());
    assert_eq!(line_named(|| _ = queue.remove(&key)), line!());
    assert_eq!(line_named(|| queue.reset(&key, ms(1))), line!());
    assert_eq!(line_named(|| queue.reset_at(&key, Instant::now())), line!());
    assert_eq!(line_named(|| _ = queue.deadline(&key)), line!());
    assert_eq!(line_named(|| queue.reserve(usize::MAX)), line!());
    assert_eq!(line_named(|| drop(DelayQueue::<u32>::with_capacity(usize::MAX))), line!());
}
