//! Limits that are changed while something waits.

use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use timingwheel::TimingWheel;
use tokio::io::{AsyncReadExt, duplex};
use tokio::time::{Instant, advance, timeout};
use tokio_test::{assert_pending, assert_ready};

use crate::by_hand::{ByHand, Op, task};
use crate::{DAY, ms, passed};

#[tokio::test(start_paused = true)]
async fn a_new_limit_counts_from_when_the_wait_began() {
    // Changed after 5 ms of waiting.
    for (before, after, expected) in [
        (10, Some(20), Some(20)),
        (10, Some(7), Some(7)),
        (10, Some(2), Some(5)),
        (10, None, None),
        (10, Some(10), Some(10)),
    ] {
        let (_peer, stream) = duplex(4);
        let mut stream = TimingWheel::new().idle_guard(stream).with_read_limit(ms(before));
        let start = Instant::now();
        assert!(timeout(ms(5), stream.read_u8()).await.is_err());
        stream.set_read_limit(after.map(ms));
        let read = timeout(DAY, stream.read_u8()).await;
        assert_eq!(read.is_ok().then(|| start.elapsed()), expected.map(ms), "{before} {after:?}");
        read.into_iter().for_each(|read| _ = passed(read));
    }
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_is_set_when_it_has_long_passed_is_an_error_at_once() {
    let guard = TimingWheel::new().idle_guard(ByHand::default()).with_read_limit(DAY);
    let guard = Arc::new(Mutex::new(guard));
    let mut read = task(&guard, Op::Read);
    assert_pending!(read.poll());
    advance(DAY / 3).await;
    guard.lock().unwrap().set_read_limit(Some(ms(10)));
    assert!(read.is_woken());
    passed(assert_ready!(read.poll()));
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_comes_while_a_read_waits_counts_from_the_next_poll() {
    let (_peer, stream) = duplex(4);
    let mut stream = pin!(TimingWheel::new().idle_guard(stream));
    let start = Instant::now();
    assert!(timeout(ms(5), stream.read_u8()).await.is_err());
    stream.as_mut().set_read_limit_pinned(Some(ms(10)));
    passed(stream.read_u8().await);
    assert_eq!(start.elapsed(), ms(15));
    // The same after one that was taken away.
    stream.as_mut().set_read_limit_pinned(Some(DAY));
    assert!(timeout(ms(5), stream.read_u8()).await.is_err());
    stream.as_mut().set_read_limit_pinned(None);
    stream.as_mut().set_write_limit_pinned(Some(ms(1)));
    assert!(timeout(ms(5), stream.read_u8()).await.is_err());
    stream.as_mut().set_read_limit_pinned(Some(ms(10)));
    let start = Instant::now();
    passed(stream.read_u8().await);
    assert_eq!((start.elapsed(), stream.write_limit()), (ms(10), Some(ms(1))));
}

#[tokio::test(start_paused = true)]
async fn a_task_that_waits_is_woken_by_a_new_limit_of_which_it_does_not_know() {
    for (op, set) in [
        (
            Op::Read,
            (|limit, guard| guard.set_read_limit(limit))
                as fn(Option<Duration>, &mut timingwheel::IdleGuard<ByHand>),
        ),
        (Op::Write, |limit, guard| guard.set_write_limit(limit)),
    ] {
        let wheel = TimingWheel::new();
        let guard = wheel.idle_guard(ByHand::default()).with_read_limit(DAY).with_write_limit(DAY);
        let guard = Arc::new(Mutex::new(guard));
        let mut waits = task(&guard, op);
        assert_pending!(waits.poll());
        advance(ms(5)).await;
        set(Some(ms(10)), &mut guard.lock().unwrap());
        assert!(waits.is_woken(), "half of it has passed");
        assert_pending!(waits.poll());
        advance(ms(4)).await;
        assert!(!waits.is_woken());
        advance(ms(1)).await;
        assert!(waits.is_woken(), "{op:?}");
        passed(assert_ready!(waits.poll()));

        // One that has passed already.
        set(Some(DAY), &mut guard.lock().unwrap());
        assert_pending!(waits.poll());
        advance(ms(5)).await;
        set(Some(ms(5)), &mut guard.lock().unwrap());
        assert!(waits.is_woken(), "{op:?}");
        passed(assert_ready!(waits.poll()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_longer_limit_saves_a_wait_that_is_overdue_and_was_not_polled() {
    let guard = TimingWheel::new().idle_guard(ByHand::default()).with_read_limit(ms(10));
    let guard = Arc::new(Mutex::new(guard));
    let mut read = task(&guard, Op::Read);
    assert_pending!(read.poll());
    advance(ms(12)).await;
    assert!(read.is_woken());
    guard.lock().unwrap().set_read_limit(Some(ms(20)));
    assert_pending!(read.poll());
    advance(ms(7)).await;
    assert!(!read.is_woken());
    advance(ms(1)).await;
    assert!(read.is_woken());
    passed(assert_ready!(read.poll()));
}
