//! A key finds its item and no other. A key of tokio-util's is a place, and may find another item there.

use std::collections::HashMap;

use futures::StreamExt;
use timingwheel::time::DelayQueue;
use timingwheel::time::delay_queue::Key;

use super::*;

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

#[tokio::test(start_paused = true)]
async fn all_keys_of_a_queue_differ() {
    let mut queue = DelayQueue::new();
    let mut made = HashMap::new();
    for n in 0..1_000_u32 {
        let key = queue.insert(n, ms(u64::from(n % 7)));
        assert_eq!(made.insert(key, n), None);
        match n % 5 {
            0 => _ = queue.remove(&key),
            1 => _ = queue.next().await,
            2 if n % 3 == 0 => queue.compact(),
            3 if n % 101 == 0 => queue.clear(),
            _ => {}
        }
    }
    while let Some(expired) = queue.next().await {
        assert_eq!(made[&expired.key()], *expired.get_ref());
    }
}

#[tokio::test(start_paused = true)]
async fn keys_of_moved_items_are_those_that_they_had() {
    let mut queue = DelayQueue::new();
    let keys: Vec<Key> = (0..100_u32).map(|n| queue.insert(n, ms(n.into()))).collect();
    keys[..90].iter().for_each(|key| _ = queue.remove(key));
    queue.compact();
    assert_eq!(queue.peek(), Some(keys[90]));
    for key in &keys[90..] {
        let expired = queue.next().await.unwrap();
        assert_eq!(expired.key(), *key);
    }
}

#[tokio::test(start_paused = true)]
async fn due_items_can_be_removed_reset_and_compacted_before_they_are_popped() {
    let mut queue = tokio_test::task::spawn(DelayQueue::new());
    let keys: Vec<Key> = (0..100_usize).map(|n| queue.insert(n, ms(1))).collect();
    tokio::time::advance(ms(1)).await;
    assert_eq!(due(&mut queue), 0);
    keys[1..80].iter().for_each(|key| _ = queue.remove(key));
    queue.reset(&keys[80], ms(10));
    queue.reset_at(&keys[99], tokio::time::Instant::now() - ms(5));
    queue.compact();
    assert_eq!((queue.len(), queue.capacity()), (20, 20));
    assert_eq!(due(&mut queue), 99);
    for (n, key) in keys.iter().enumerate().take(99).skip(81) {
        assert_eq!(queue.peek(), Some(*key));
        assert_eq!(due(&mut queue), n);
    }
    tokio_test::assert_pending!(poll(&mut queue));
    assert_eq!(queue.next().await.unwrap().key(), keys[80]);
}
