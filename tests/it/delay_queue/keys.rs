//! A key finds its item and no other. A key of tokio-util's is a place, and may find another item there.

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
