//! When the timer asks whoever waits, where there are several limits or limits that change: a read that was dropped does
//! not count, and one that is alive does.

use std::sync::{Arc, Mutex};

use timingwheel::TimingWheel;
use tokio::time::advance;
use tokio_test::{assert_pending, assert_ready, assert_ready_ok};

use crate::by_hand::{ByHand, Op, task};
use crate::{ms, passed};

const SECOND: u64 = 1_000;

#[tokio::test(start_paused = true)]
async fn after_traffic_the_other_direction_is_asked_at_half_of_the_silence_again() {
    let hand = ByHand::default();
    let guard = TimingWheel::new().idle_guard(hand.clone()).with_idle_limit(ms(30 * SECOND));
    let guard = Arc::new(Mutex::new(guard));
    let mut read = task(&guard, Op::Read);
    assert_pending!(read.poll());
    advance(ms(15 * SECOND)).await;
    assert!(read.is_woken());
    assert_pending!(read.poll());
    hand.make_ready(Op::Write);
    assert_ready_ok!(task(&guard, Op::Write).poll());
    advance(ms(15 * SECOND)).await;
    assert!(read.is_woken(), "half of the silence since the write");
    // The read is dropped. The next one comes when its limit has just passed.
    advance(ms(15 * SECOND + 500)).await;
    assert_pending!(task(&guard, Op::Read).poll(), "nobody has answered");
}

#[tokio::test(start_paused = true)]
async fn beside_a_shorter_limit_whoever_waits_is_asked_at_half_of_the_longer_one_too() {
    let hand = ByHand::default();
    let guard = TimingWheel::new().idle_guard(hand.clone()).with_idle_limit(ms(10 * SECOND));
    let guard = Arc::new(Mutex::new(guard.with_read_limit(ms(60 * SECOND))));
    let mut read = task(&guard, Op::Read);
    assert_pending!(read.poll());
    for _ in 0..5 {
        advance(ms(5 * SECOND)).await;
        assert!(read.is_woken(), "half of the silence");
        assert_pending!(read.poll());
        advance(ms(SECOND)).await;
        hand.make_ready(Op::Write);
        assert_ready_ok!(task(&guard, Op::Write).poll());
    }
    assert!(read.is_woken(), "half of the read's limit");
    // Dropped, though the other direction is busy.
    for _ in 0..6 {
        advance(ms(5 * SECOND)).await;
        hand.make_ready(Op::Write);
        assert_ready_ok!(task(&guard, Op::Write).poll());
    }
    assert_pending!(task(&guard, Op::Read).poll());
}

#[tokio::test(start_paused = true)]
async fn half_of_a_reads_limit_is_not_half_of_the_silence() {
    let hand = ByHand::default();
    let guard = TimingWheel::new().idle_guard(hand.clone()).with_idle_limit(ms(20 * SECOND));
    let guard = Arc::new(Mutex::new(guard.with_read_limit(ms(30 * SECOND))));
    let mut read = task(&guard, Op::Read);
    assert_pending!(read.poll());
    advance(ms(9 * SECOND)).await;
    hand.make_ready(Op::Write);
    assert_ready_ok!(task(&guard, Op::Write).poll());
    advance(ms(6 * SECOND)).await;
    assert!(read.is_woken(), "half of the read's limit");
    assert_pending!(read.poll());
    advance(ms(4 * SECOND)).await;
    assert!(read.is_woken(), "half of the silence");
    advance(ms(10 * SECOND + 500)).await;
    assert_pending!(task(&guard, Op::Read).poll(), "nobody has answered");
}

#[tokio::test(start_paused = true)]
async fn a_longer_limit_is_asked_for_at_its_own_half() {
    for is_idle_limit in [false, true] {
        let guard = TimingWheel::new().idle_guard(ByHand::default());
        let guard = Arc::new(Mutex::new(guard));
        let set = |seconds: u64| {
            let limit = Some(ms(seconds * SECOND));
            let mut guard = guard.lock().unwrap();
            if is_idle_limit { guard.set_idle_limit(limit) } else { guard.set_read_limit(limit) }
        };
        set(10);
        let mut read = task(&guard, Op::Read);
        assert_pending!(read.poll());
        advance(ms(6 * SECOND)).await;
        assert!(read.is_woken());
        assert_pending!(read.poll());
        set(40);
        advance(ms(14 * SECOND)).await;
        assert!(read.is_woken());
        advance(ms(20 * SECOND + 500)).await;
        assert_pending!(task(&guard, Op::Read).poll(), "nobody has answered");
    }
}

#[tokio::test(start_paused = true)]
async fn a_read_that_was_dropped_before_a_limit_was_set_does_not_have_that_limit() {
    for limit in [5, 20, 60] {
        let guard = TimingWheel::new().idle_guard(ByHand::default()).with_read_limit(ms(10 * SECOND));
        let guard = Arc::new(Mutex::new(guard));
        assert_pending!(task(&guard, Op::Read).poll());
        // It is asked at the half, and does not answer.
        advance(ms(5 * SECOND)).await;
        advance(ms(15 * SECOND)).await;
        guard.lock().unwrap().set_read_limit(Some(ms(limit * SECOND)));
        let mut next = task(&guard, Op::Read);
        assert_pending!(next.poll());
        // At half of it, and at the end.
        for is_end in [false, true] {
            advance(ms(limit * SECOND / 2 - 1)).await;
            assert!(!next.is_woken(), "{limit} s");
            advance(ms(1)).await;
            assert!(next.is_woken());
            if is_end {
                passed(assert_ready!(next.poll()));
            } else {
                assert_pending!(next.poll());
            }
        }
    }
}
