//! A warm delay queue allocates nothing when items are inserted, reset, removed, awaited and popped. After `clear` and
//! `drain` it keeps the room for its items, and `clear` takes no other.

use std::future::poll_fn;
use std::time::Duration;

use super::{ALLOCATOR, comes_to_allocate_nothing};
use stats_alloc::Region;
use timingwheel::TimingWheel;
use timingwheel::time::DelayQueue;

const ROUNDS: u64 = 40;
/// In the queue at a time.
const AT_A_TIME: u64 = 50;
/// So few that all of them have soon been used.
const SLOTS: u64 = 64;

/// Items of which all are popped, some at once and some on coarser levels first.
async fn pop(queue: &mut DelayQueue<u64>) {
    for round in 0..ROUNDS {
        for n in 0..AT_A_TIME {
            queue.insert(n, Duration::from_millis((round + n) % (2 * SLOTS)));
        }
        for _ in 0..AT_A_TIME {
            assert!(poll_fn(|cx| queue.poll_expired(cx)).await.is_some());
        }
    }
    assert!(poll_fn(|cx| queue.poll_expired(cx)).await.is_none());
}

/// Items of which none is.
fn come_and_go(queue: &mut DelayQueue<u64>) {
    for n in 0..ROUNDS * AT_A_TIME {
        let key = queue.insert(n, Duration::from_secs(30));
        queue.reset(&key, Duration::from_secs(60));
        queue.reset(&key, Duration::from_secs(20));
        queue.reset(&key, Duration::ZERO);
        assert_eq!(queue.remove(&key).into_inner(), n);
    }
}

/// How many bytes are taken to empty a queue of so many items, and then for as many.
fn bytes_to_empty_and_fill_again(empty: fn(&mut DelayQueue<[u64; 64]>)) -> [usize; 2] {
    let mut queue = TimingWheel::new().delay_queue();
    let fill: fn(&mut DelayQueue<_>) = |queue| {
        (0..AT_A_TIME).for_each(|n| _ = queue.insert([n; 64], Duration::from_secs(n)));
    };
    fill(&mut queue);
    [empty, fill].map(|work| {
        let region = Region::new(ALLOCATOR);
        work(&mut queue);
        region.change().bytes_allocated
    })
}

#[test]
fn a_warm_queue_allocates_nothing() {
    if super::ran_alone(a_warm_queue_allocates_nothing) {
        return;
    }
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let _context = runtime.enter();
    let mut queue = TimingWheel::new().delay_queue();
    assert!(comes_to_allocate_nothing(|| come_and_go(&mut queue)), "where items come and go");
    assert!(comes_to_allocate_nothing(|| runtime.block_on(pop(&mut queue))), "where items are popped");

    let room = usize::try_from(AT_A_TIME).unwrap() * size_of::<[u64; 64]>();
    let [_, anew] = bytes_to_empty_and_fill_again(|queue| *queue = TimingWheel::new().delay_queue());
    let [to_clear, cleared] = bytes_to_empty_and_fill_again(DelayQueue::clear);
    let [to_drain, drained] = bytes_to_empty_and_fill_again(|queue| _ = queue.drain());
    assert!(anew > room && to_drain > room, "{anew} and {to_drain} bytes: more than the room, {room}");
    for bytes in [to_clear, cleared, drained] {
        assert!(bytes < room, "{bytes} bytes: the room for items is kept, which is {room}");
    }
}
