//! A queue whose wheel ends, is full, or is not there.

use timingwheel::TimingWheel;
use timingwheel::time::{self, DelayQueue};
use tokio::runtime::Builder;
use tokio::time::{Instant, advance};
use tokio_test::task::{Spawn, spawn};
use tokio_test::{assert_pending, assert_ready};

use super::*;
use crate::paused;

fn try_poll<T>(queue: &mut Spawn<DelayQueue<T>>) -> Poll<Option<Result<Expired<T>, timingwheel::Error>>> {
    queue.enter(|cx, mut queue| queue.poll_try_expired(cx))
}

const ENDED: &str = "a `DelayQueue` cannot wait for its next item: the timing wheel has ended: it was \
                     shut down, or its tokio runtime has ended";

#[tokio::test(start_paused = true)]
async fn at_the_end_of_the_wheel_who_waits_is_woken_and_told_and_no_item_is_lost() {
    let start = Instant::now();
    let wheel = TimingWheel::new();
    let mut queue = spawn(wheel.delay_queue());
    for millis in [30, 10, 20] {
        queue.insert_at(millis, start + ms(millis));
    }
    assert_pending!(poll(&mut queue));
    wheel.shutdown();
    assert!(queue.is_woken());
    assert!(assert_ready!(try_poll(&mut queue)).unwrap().unwrap_err().is_shutdown());
    assert_eq!(panic_text(|| poll(&mut queue)), ENDED);

    // Due items are handed out, and the rest can be taken.
    advance(ms(15)).await;
    assert_eq!(due(&mut queue), 10);
    assert!(assert_ready!(try_poll(&mut queue)).unwrap().is_err());
    queue.insert(5, ms(1));
    queue.insert(0, Duration::ZERO);
    assert_eq!(due(&mut queue), 0);
    let first = queue.peek().unwrap();
    assert_eq!(queue.remove(&first).into_inner(), 5);
    assert_eq!(queue.drain().map(Expired::into_inner).collect::<Vec<_>>(), [20, 30]);
    assert!(assert_ready!(poll(&mut queue)).is_none());
}

#[test]
fn a_queue_outlives_its_runtime() {
    let (queue, deadline) = paused().block_on(async {
        let mut queue = spawn(DelayQueue::new());
        let key = queue.insert("far", DAY);
        queue.insert("due", Duration::ZERO);
        advance(DAY / 2).await;
        assert_eq!(due(&mut queue), "due");
        assert_pending!(poll(&mut queue));
        let deadline = queue.deadline(&key);
        (queue, deadline)
    });
    let mut queue = queue;
    assert!(queue.is_woken());
    assert_eq!(panic_text(|| poll(&mut queue)), ENDED);
    let key = queue.peek().unwrap();
    assert_eq!(queue.deadline(&key), deadline);
    queue.reset(&key, Duration::ZERO);
    assert_eq!(due(&mut queue), "far");
    assert!(assert_ready!(poll(&mut queue)).is_none());

    // Empty, it is as one that has had no item yet; the next clock begins anew.
    let text = panic_text(|| queue.insert("nowhere", DAY));
    assert!(text.starts_with("there is no timing wheel here"), "{text}");
    paused().block_on(async {
        let start = Instant::now();
        let late = queue.insert("late", ms(5));
        assert_eq!(queue.deadline(&late), start + ms(5));
        assert_ne!(late, key, "a key is used once");
        assert!(queue.try_remove(&key).is_none());
        assert_eq!((drain(&mut queue).await, start.elapsed()), (vec!["late"], ms(5)));
    });
}

#[test]
fn an_empty_queue_stays_on_its_wheel_while_that_goes_on() {
    let (first, second) = (paused(), paused());
    let mut queue = spawn(DelayQueue::new());
    let wheel = first.block_on(async {
        queue.insert("due", Duration::ZERO);
        assert_eq!(due(&mut queue), "due");
        time::wheel()
    });
    let other = second.block_on(async {
        queue.insert("far", DAY);
        assert_pending!(poll(&mut queue));
        time::wheel()
    });
    assert_eq!((wheel.pending(), other.pending()), (1, 0));
}

#[test]
fn a_queue_stays_on_its_wheel_while_it_has_items_or_if_it_was_made_there() {
    let mut with_item = spawn(DelayQueue::new());
    let mut made_there = paused().block_on(async {
        with_item.insert(1, DAY);
        spawn(TimingWheel::new().delay_queue())
    });
    paused().block_on(async {
        for queue in [&mut with_item, &mut made_there] {
            queue.insert(2, DAY);
            assert!(assert_ready!(try_poll(queue)).unwrap().unwrap_err().is_shutdown());
        }
    });
}

#[test]
fn a_queue_of_another_runtime_is_polled_where_it_is() {
    let workers = crate::runtime(1);
    let mut queue = {
        let _guard = workers.enter();
        time::wheel().delay_queue()
    };
    queue.insert(1, ms(5));
    queue.insert(2, ms(1));
    let other = Builder::new_current_thread().build().unwrap();
    assert_eq!(other.block_on(drain(&mut queue)), [2, 1]);
    queue.insert(3, ms(1));
    let mut queue = spawn(queue);
    while poll(&mut queue).is_pending() {
        // On no runtime at all, with a waker that is only looked at.
        std::thread::yield_now();
    }
    assert!(queue.is_empty());
}

/// The wheel's time counts. Otherwise the queue would look again and again at a clock that stands.
#[test]
fn a_clock_that_stands_where_the_queue_is_polled_does_not_make_it_spin() {
    let workers = crate::runtime(1);
    let mut queue = {
        let _guard = workers.enter();
        time::wheel().delay_queue()
    };
    paused().block_on(async {
        queue.insert(1, ms(2));
        assert_eq!(drain(&mut queue).await, [1]);
    });
}

#[tokio::test(start_paused = true)]
async fn on_a_wheel_that_is_full_the_queue_says_so_and_goes_on_when_there_is_room() {
    let wheel = TimingWheel::builder().max_pending(1).build().unwrap();
    let other = wheel.try_sleep(DAY).unwrap();
    let mut queue = spawn(wheel.delay_queue());
    queue.insert(1, ms(100));
    let error = assert_ready!(try_poll(&mut queue)).unwrap().unwrap_err();
    assert!(error.is_at_capacity());
    let text = "a `DelayQueue` cannot wait for its next item: the timing wheel is full \
                (max_pending = 1)";
    assert_eq!(panic_text(|| poll(&mut queue)), text);
    drop(other);
    assert_pending!(poll(&mut queue));
    assert_eq!(drain(&mut queue).await, [1]);
}

#[test]
fn outside_a_runtime_an_empty_queue_works_and_the_first_item_is_refused() {
    let mut queue = spawn(DelayQueue::with_capacity(5));
    assert!(assert_ready!(poll(&mut queue)).is_none());
    assert_eq!((queue.len(), queue.peek()), (0, None));
    queue.clear();
    queue.compact();
    let text = panic_text(|| queue.insert(1, ms(1)));
    assert!(
        text.starts_with("there is no timing wheel here, because this thread is not within a tokio runtime"),
        "{text}"
    );
    assert_eq!(panic_text(|| queue.insert_at(1, Instant::now())), text);
    assert!(queue.is_empty());
    paused().block_on(async {
        queue.insert(1, ms(1));
        assert_eq!(drain(&mut queue).await, [1]);
    });
}

#[tokio::test(start_paused = true)]
async fn a_key_of_another_queue_is_refused_by_one_that_had_no_item() {
    let key = DelayQueue::new().insert(1, ms(1));
    let mut queue = DelayQueue::<u32>::new();
    assert!(queue.try_remove(&key).is_none());
    for text in [
        panic_text(|| queue.remove(&key)),
        panic_text(|| queue.reset(&key, ms(1))),
        panic_text(|| queue.reset_at(&key, Instant::now())),
        panic_text(|| queue.deadline(&key)),
    ] {
        assert!(text.starts_with("Key(of insertion 0) names no item of this delay queue"), "{text}");
    }
}

#[test]
fn a_queue_too_large_is_refused_and_the_limit_named() {
    assert_eq!(DelayQueue::<u8>::MAX_LEN, 4_294_966_271);
    let text = "a delay queue holds at most 4294966271 items, got 0 and 4294967296 more";
    assert_eq!(panic_text(|| DelayQueue::<u8>::with_capacity(1 << 32)), text);
    assert_eq!(panic_text(|| DelayQueue::<u8>::new().reserve(1 << 32)), text);
}
