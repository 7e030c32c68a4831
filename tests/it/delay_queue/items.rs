//! The order and the times of items, and keys, where ours promises more than tokio-util's: there a key is a place, and may
//! find another item.

use futures::StreamExt;
use futures::stream::{FusedStream, Stream};
use timingwheel::TimingWheel;
use timingwheel::time::DelayQueue;
use timingwheel::time::delay_queue::Key;
use tokio::time::{Instant, advance, sleep};
use tokio_test::assert_pending;
use tokio_test::task::spawn;

use super::*;

#[tokio::test(start_paused = true)]
async fn items_with_the_same_deadline_come_in_the_order_of_their_insertion() {
    let mut queue = DelayQueue::new();
    let deadline = Instant::now() + ms(100_000);
    // Some wait on a coarse level, some are inserted late, some come by a reset.
    let keys: Vec<_> = (0..50).map(|n| queue.insert_at(n, deadline)).collect();
    for n in (0..50).step_by(3) {
        queue.remove(&keys[n]);
    }
    for n in (1..50).step_by(3) {
        queue.reset(&keys[n], DAY);
        queue.reset_at(&keys[n], deadline);
    }
    advance(ms(99_990)).await;
    queue.insert_at(50, deadline);
    let expected: Vec<usize> = (0..51).filter(|n| n % 3 != 0 || *n == 50).collect();
    assert_eq!(drain(&mut queue).await, expected);
}

#[tokio::test(start_paused = true)]
async fn overdue_items_come_in_the_order_of_their_deadlines_whenever_they_were_inserted() {
    let mut queue = spawn(DelayQueue::new());
    let start = Instant::now();
    for millis in [30, 10, 20, 90] {
        queue.insert_at(millis, start + ms(millis));
    }
    advance(ms(50)).await;
    assert_eq!(due(&mut queue), 10);
    queue.insert_at(5, start + ms(5));
    queue.insert_at(25, start + ms(25));
    assert_eq!([due(&mut queue), due(&mut queue), due(&mut queue), due(&mut queue)], [5, 20, 25, 30]);
    assert_pending!(poll(&mut queue));
}

#[tokio::test(start_paused = true)]
async fn a_whole_batch_that_is_due_does_not_wait_for_the_next_item() {
    let start = Instant::now();
    let mut queue = DelayQueue::new();
    for n in 0..256 {
        queue.insert(n, ms(10));
    }
    let removed = queue.insert(256, ms(20));
    queue.insert(257, DAY);
    queue.remove(&removed);
    for n in 0..256 {
        assert_eq!(queue.next().await.unwrap().into_inner(), n);
    }
    assert_eq!(start.elapsed(), ms(10));
}

#[tokio::test(start_paused = true)]
async fn deadlines_are_kept_to_the_nanosecond() {
    let start = Instant::now();
    let mut queue = DelayQueue::new();
    let odd = Duration::from_nanos(7_123_457);
    let key = queue.insert("odd", odd);
    assert_eq!(queue.deadline(&key), start + odd);
    let expired = queue.next().await.unwrap();
    assert_eq!(expired.deadline(), start + odd);
    // A paused clock goes by whole milliseconds.
    assert_eq!(start.elapsed(), ms(8));
    // One that has passed is kept as well.
    let key = queue.insert_at("overdue", start);
    assert_eq!(queue.deadline(&key), start);
}

#[tokio::test(start_paused = true)]
async fn items_of_the_tick_that_is_under_way_take_one_wake_up() {
    let wheel = TimingWheel::builder().tick(ms(10)).build().unwrap();
    let mut queue = spawn(wheel.delay_queue());
    (1..=9).for_each(|n| _ = queue.insert(n, ms(n)));
    advance(ms(2)).await;
    assert_pending!(poll(&mut queue));
    assert_eq!(drain(&mut queue).await, Vec::from_iter(1..=9));
    assert_eq!(wheel.stats().armed, 1);
}

#[tokio::test(start_paused = true)]
async fn items_that_share_a_tick_are_there_at_the_last_of_their_deadlines() {
    let wheel = TimingWheel::builder().tick(DAY).build().unwrap();
    for is_waited_for in [false, true] {
        let mut queue = spawn(wheel.delay_queue());
        queue.insert(1, ms(5));
        if is_waited_for {
            assert_pending!(poll(&mut queue));
        }
        queue.insert(2, ms(60));
        advance(ms(59)).await;
        // Where somebody waited for the first alone, it is woken for that and finds that there are two.
        assert_pending!(poll(&mut queue));
        sleep(ms(1)).await;
        assert!(queue.is_woken());
        assert_eq!([due(&mut queue), due(&mut queue)], [1, 2]);
    }
}

#[tokio::test(start_paused = true)]
async fn there_is_no_furthest_deadline() {
    let start = Instant::now();
    let mut queue = spawn(DelayQueue::new());
    let century = DAY * 365 * 100;
    let never = queue.insert("never", Duration::MAX);
    queue.insert("in a century", century);
    assert_eq!(queue.next().await.unwrap().into_inner(), "in a century");
    assert_eq!(start.elapsed(), century);
    assert_eq!(queue.peek(), Some(never));
    assert_pending!(poll(&mut queue));
    queue.reset(&never, ms(1));
    queue.reset(&never, Duration::MAX);
    assert_pending!(poll(&mut queue));
    assert!(queue.deadline(&never) > start + century * 2);
    assert_eq!(queue.remove(&never).into_inner(), "never");
}

#[tokio::test(start_paused = true)]
async fn a_deadline_beyond_all_times_of_the_wheel_is_told_as_it_was_set_until_it_is_reset() {
    let now = Instant::now();
    let far = [400, 1_000].map(|years| now.checked_add(DAY * 365 * years));
    let past = [1, 3, 56, 400, 1_000].map(|years| now.checked_sub(DAY * 365 * years));
    // Some systems' clocks reach less far.
    for at in far.into_iter().chain(past).flatten() {
        let mut queue = DelayQueue::new();
        let [kept, reset, drained] = [(); 3].map(|()| queue.insert_at("item", at));
        assert_eq!([kept, reset, drained].map(|key| queue.deadline(&key)), [at; 3]);
        queue.reset_at(&reset, now + ms(5));
        assert_eq!(queue.remove(&reset).deadline(), now + ms(5));
        assert_eq!(queue.remove(&kept).deadline(), at);
        assert_eq!(queue.drain().next().unwrap().deadline(), at);
    }
}

#[tokio::test(start_paused = true)]
async fn as_a_stream_it_knows_its_size_and_is_terminated_once_it_has_told_that_it_is_empty() {
    let mut queue = DelayQueue::new();
    assert!(!queue.is_terminated(), "nobody has asked");
    queue.insert(1, ms(1));
    queue.insert(2, ms(2));
    assert!(!queue.is_terminated());
    assert_eq!(queue.size_hint(), (2, Some(2)));
    assert_eq!(queue.select_next_some().await.into_inner(), 1);
    assert_eq!(queue.select_next_some().await.into_inner(), 2);
    assert!(!queue.is_terminated(), "nobody has asked");
    assert!(queue.next().await.is_none());
    assert!(queue.is_terminated());
    queue.insert(3, ms(1));
    assert!(!queue.is_terminated());
}

/// On a runtime of its own, where nothing else makes this task wait. Moving the timers spends some of the budget too,
/// so all have been moved before the other task is there.
#[tokio::test(start_paused = true)]
async fn popping_lets_other_tasks_run() {
    const BUDGET: usize = 128;
    let mut queue = TimingWheel::new().delay_queue();
    (0..1_000).for_each(|n| _ = queue.insert(n, Duration::ZERO));
    assert!(queue.next().await.is_some());
    tokio::task::yield_now().await;
    let other = tokio::spawn(std::future::ready(()));
    let mut popped = 0;
    while !other.is_finished() {
        assert!(queue.next().await.is_some(), "the other task did not run");
        popped += 1;
    }
    // One more, which waited for the other.
    assert!(popped <= BUDGET + 1, "the other task ran after {popped} items");
}

#[tokio::test(start_paused = true)]
async fn drain_takes_all_items_out_in_the_order_in_which_they_would_come() {
    let mut queue = spawn(DelayQueue::new());
    let start = Instant::now();
    let mut expected = Vec::new();
    fastrand::seed(5);
    for value in 0..500_u64 {
        let millis = fastrand::u64(..300);
        let key = queue.insert_at(value, start + ms(millis));
        expected.push((millis, value, key));
    }
    for (millis, _, key) in expected.iter_mut().step_by(3) {
        *millis = fastrand::u64(..600);
        queue.reset_at(key, start + ms(*millis));
    }
    // Some are due, and one of them has been handed out.
    advance(ms(100)).await;
    expected.sort_unstable_by_key(|&(millis, value, _)| (millis, value));
    let (_, first, _) = expected.remove(0);
    assert_eq!(due(&mut queue), first);
    let drained = queue.drain();
    assert_eq!((queue.len(), queue.peek(), drained.len()), (0, None, expected.len()));
    for (expired, (millis, value, key)) in drained.zip(expected) {
        assert_eq!((expired.deadline(), expired.key()), (start + ms(millis), key));
        assert_eq!(expired.into_inner(), value);
        assert!(queue.try_remove(&key).is_none());
    }
    assert_eq!(queue.drain().count(), 0);
    queue.insert(1_000, ms(1));
    assert_eq!(drain(&mut queue).await, [1_000]);
}

/// Nothing is done to any item of `queue` by these keys.
#[track_caller]
fn assert_stale(queue: &mut DelayQueue<u32>, keys: &[Key]) {
    let len = queue.len();
    for key in keys {
        assert!(queue.try_remove(key).is_none());
        let text = panic_text(|| queue.remove(key));
        assert_eq!(text, panic_text(|| queue.reset(key, ms(1))));
        assert_eq!(text, panic_text(|| queue.deadline(key)));
        assert_eq!(
            text,
            format!(
                "{key:?} names no item of this delay queue: it was handed out or removed, or is another queue's"
            )
        );
    }
    assert_eq!(queue.len(), len);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_has_outlived_its_item_touches_no_other() {
    let mut queue = DelayQueue::new();
    let popped = queue.insert(0, ms(1));
    assert_eq!(queue.next().await.unwrap().key(), popped);
    let removed = queue.insert(1, ms(1));
    queue.remove(&removed);
    let cleared = queue.insert(2, ms(1));
    queue.clear();
    // In their places there are others now.
    let keys: Vec<Key> = (3..10).map(|n| queue.insert(n, ms(1))).collect();
    assert_stale(&mut queue, &[popped, removed, cleared]);
    for key in &keys[..5] {
        queue.remove(key);
    }
    queue.compact();
    queue.insert(10, ms(1));
    assert_stale(&mut queue, &[popped, removed, cleared, keys[0], keys[4]]);
    assert_eq!([&keys[5], &keys[6]].map(|key| queue.remove(key).into_inner()), [8, 9]);
}
