//! A waiting task is woken, whatever happens to the queue meanwhile, and leaves no needless timer.

use std::sync::{Arc, Mutex};

use timingwheel::TimingWheel;
use timingwheel::time::{self, DelayQueue};
use tokio::time::{Instant, advance, sleep, timeout};
use tokio_test::task::spawn;
use tokio_test::{assert_pending, assert_ready};

use super::*;

type Shared = Arc<Mutex<DelayQueue<u32>>>;
/// A task that waits for the next value, and tells at which time it came.
fn waits(queue: &Shared) -> tokio::task::JoinHandle<(Instant, Option<u32>)> {
    let queue = queue.clone();
    tokio::spawn(async move {
        let next = poll_fn(|cx| queue.lock().unwrap().poll_expired(cx)).await;
        (Instant::now(), next.map(Expired::into_inner))
    })
}

#[tokio::test(start_paused = true)]
async fn a_task_that_waits_for_the_last_item_is_told_that_it_is_gone() {
    let removals: [fn(&mut DelayQueue<u32>); 4] = [
        |queue| _ = queue.remove(&queue.peek().unwrap()),
        |queue| _ = queue.try_remove(&queue.peek().unwrap()),
        DelayQueue::clear,
        |queue| _ = queue.drain(),
    ];
    for remove in removals {
        let queue: Shared = Arc::default();
        queue.lock().unwrap().insert(1, DAY);
        let waiting = waits(&queue);
        sleep(ms(10)).await;
        remove(&mut queue.lock().unwrap());
        let (_, none) = timeout(ms(1), waiting).await.expect("it is told").unwrap();
        assert_eq!(none, None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_is_moved_to_another_task_wakes_that_one() {
    let mut first = spawn(());
    let mut second = spawn(());
    let mut queue = DelayQueue::new();
    queue.insert(1, ms(100));
    assert_pending!(first.enter(|cx, _| queue.poll_expired(cx)));
    assert_pending!(second.enter(|cx, _| queue.poll_expired(cx)));
    sleep(ms(100)).await;
    assert!(second.is_woken() && !first.is_woken());

    queue.insert(2, ms(100));
    assert!(assert_ready!(first.enter(|cx, _| queue.poll_expired(cx))).is_some());
    assert_pending!(first.enter(|cx, _| queue.poll_expired(cx)));
    let queue = Arc::new(Mutex::new(queue));
    let (_, value) = waits(&queue).await.unwrap();
    assert_eq!(value, Some(2));
}

#[tokio::test(start_paused = true)]
async fn an_empty_queue_has_no_timer() {
    let mut queue = spawn(DelayQueue::new());
    let wheel = time::wheel();
    let key = queue.insert(1, ms(10_000));
    assert_eq!(wheel.pending(), 0, "armed when it is polled");
    assert_pending!(poll(&mut queue));
    assert_pending!(poll(&mut queue));
    assert_eq!(wheel.pending(), 1);
    queue.remove(&key);
    assert_eq!(wheel.pending(), 0);

    // An item that comes early leaves the timer for the one that was waited for; the end takes it away.
    let key = queue.insert(1, ms(10_000));
    assert_pending!(poll(&mut queue));
    queue.insert(2, ms(1));
    advance(ms(1)).await;
    assert_eq!(due(&mut queue), 2);
    queue.remove(&key);
    assert!(assert_ready!(poll(&mut queue)).is_none());
    assert_eq!(wheel.pending(), 0);
    assert_eq!(wheel.stats().armed, 2);
}

/// On the clock that runs, as the driver has no chance to come to the timer here.
#[tokio::test]
async fn a_queue_that_was_emptied_before_its_timer_fired_has_none_any_more() {
    let wheel = TimingWheel::new();
    let mut queue = spawn(wheel.delay_queue());
    let key = queue.insert(1, ms(2));
    assert_pending!(poll(&mut queue));
    std::thread::sleep(ms(5));
    queue.remove(&key);
    assert!(assert_ready!(poll(&mut queue)).is_none());
    assert_eq!(wheel.pending(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_item_that_is_reset_again_and_again_wakes_nobody_meanwhile() {
    let wheel = TimingWheel::new();
    let mut queue = spawn(wheel.delay_queue());
    let key = queue.insert(1, ms(60_000));
    assert_pending!(poll(&mut queue));
    for _ in 0..1_000 {
        advance(ms(50)).await;
        queue.reset(&key, ms(60_000));
        assert!(!queue.is_woken());
        assert_pending!(poll(&mut queue));
    }
    assert!(wheel.stats().armed <= 10, "{:?}", wheel.stats());
}
