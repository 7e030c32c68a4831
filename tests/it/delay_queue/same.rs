//! Behaviour of both queues. All deadlines are whole milliseconds, because tokio-util's has no finer ones.

use std::collections::HashSet;
use std::fmt::Debug;
use std::hash::Hash;
use std::panic::{AssertUnwindSafe, catch_unwind};

use futures::StreamExt;
use tokio::time::{Instant, sleep};
use tokio_test::task::spawn;
use tokio_test::{assert_pending, assert_ready};

use super::time::DelayQueue;
use super::time::delay_queue::{Expired, Key};
use crate::ms;

macro_rules! poll {
    ($queue:ident) => {
        $queue.enter(|cx, mut queue| queue.poll_expired(cx))
    };
}

macro_rules! due {
    ($queue:ident) => {
        assert_ready!(poll!($queue)).expect("there is an item").into_inner()
    };
}

macro_rules! panics {
    ($call:expr) => {
        catch_unwind(AssertUnwindSafe(|| _ = $call)).is_err()
    };
}

#[tokio::test(start_paused = true)]
async fn who_waits_is_woken_for_the_first_item_whichever_is_inserted_or_moved_meanwhile() {
    type Change = fn(&mut DelayQueue<i32>, [Key; 2], Instant);
    // The time at which the task is woken, in milliseconds, and the item that it finds.
    let changes: [(Change, u64, i32); 6] = [
        (|queue, _, _| _ = queue.insert(3, ms(20)), 100, 3),
        (|queue, _, overdue| _ = queue.insert_at(3, overdue), 80, 3),
        (|queue, [first, _], _| queue.reset(&first, ms(20)), 100, 1),
        (|queue, [_, second], _| queue.reset(&second, ms(20)), 100, 2),
        (|queue, [_, second], overdue| queue.reset_at(&second, overdue), 80, 2),
        (|queue, [first, _], _| queue.reset(&first, ms(300)), 250, 2),
    ];
    for (change, at, item) in changes {
        let mut queue = spawn(DelayQueue::new());
        let overdue = Instant::now() + ms(40);
        let keys = [queue.insert(1, ms(200)), queue.insert(2, ms(250))];
        assert_pending!(poll!(queue));
        sleep(ms(80)).await;
        assert!(!queue.is_woken());
        change(&mut queue, keys, overdue);
        if at > 80 {
            sleep(ms(at - 80)).await;
        }
        assert!(queue.is_woken());
        assert_eq!(due!(queue), item);
    }
}

/// As a worker may, who takes "empty" for "nothing yet".
#[tokio::test(start_paused = true)]
async fn whoever_was_told_that_the_queue_is_empty_is_woken_by_the_next_insertion() {
    let mut queue = spawn(DelayQueue::new());
    for round in 0..3 {
        assert!(assert_ready!(poll!(queue)).is_none());
        assert!(!queue.is_woken());
        queue.insert(round, ms(10));
        assert!(queue.is_woken());
        assert_pending!(poll!(queue));
        queue.insert(round, ms(20));
        assert!(!queue.is_woken(), "it waits for an earlier one");
        sleep(ms(20)).await;
        assert_eq!([due!(queue), due!(queue)], [round, round]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_is_compacted_is_as_large_as_its_items_and_their_keys_find_them() {
    let mut queue = DelayQueue::with_capacity(10);
    assert!(queue.capacity() >= 10);
    let keys: Vec<Key> = (0..8).map(|n| queue.insert(n, ms(10 + n))).collect();
    for key in &keys[..6] {
        queue.remove(key);
    }
    queue.compact();
    assert_eq!((queue.len(), queue.capacity()), (2, 2));
    queue.insert(8, ms(8));
    queue.reset(&keys[7], ms(1));
    assert_eq!(queue.next().await.unwrap().key(), keys[7]);
    assert_eq!(queue.remove(&keys[6]).into_inner(), 6);
    assert!(panics!(queue.remove(&keys[0])));
    queue.compact();
    assert_eq!((queue.len(), queue.capacity()), (1, 1));
    queue.reserve(100);
    assert!(queue.capacity() >= 101);
    queue.shrink_to_fit();
    assert!(queue.capacity() < 101);
    queue.clear();
    assert!(queue.is_empty() && queue.capacity() > 0, "its memory stays");
}

#[tokio::test(start_paused = true)]
async fn an_expired_item_has_its_value_its_deadline_and_its_key() {
    let mut queue = DelayQueue::new();
    let key = queue.insert(vec![1], ms(1_000));
    let deadline = queue.deadline(&key);
    let mut expired: Expired<Vec<i32>> = queue.next().await.unwrap();
    expired.get_mut().push(2);
    assert_eq!((expired.get_ref(), expired.deadline(), expired.key()), (&vec![1, 2], deadline, key));
    assert_eq!(expired.into_inner(), [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn the_types_have_their_traits() {
    fn of_a_queue<Q: Default + Debug + Unpin + Send + Sync + 'static>() {}
    fn of_a_key<K: Debug + Copy + Eq + Hash + Send + Sync + Unpin + 'static>() {}
    of_a_queue::<DelayQueue<u8>>();
    fn is_unpin<T: Unpin>() {}
    is_unpin::<DelayQueue<std::marker::PhantomPinned>>();
    of_a_key::<Key>();
    let mut queue = DelayQueue::default();
    let keys: HashSet<Key> = (0..100).map(|n| queue.insert(n, ms(1))).collect();
    assert_eq!(keys.len(), 100);
    assert!(format!("{queue:?}").starts_with("DelayQueue"));
}
