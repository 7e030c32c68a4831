//! What happens at the same instant as a deadline, or after it when nobody looked; and a timer that nobody needs.

use std::future::{self, poll_fn};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use timingwheel::TimingWheel;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::task::coop;
use tokio::time::advance;
use tokio_test::{assert_pending, assert_ready, assert_ready_ok, task::spawn};

use crate::by_hand::{ByHand, Op, WRITES, poll, task};
use crate::{DAY, ms, passed};

#[tokio::test(start_paused = true)]
async fn what_is_ready_at_the_deadline_or_was_before_anybody_looked_wins() {
    for late in [ms(10), ms(11), DAY] {
        for op in WRITES.into_iter().chain([Op::Read]) {
            let hand = ByHand::default();
            let guard =
                TimingWheel::new().idle_guard(hand.clone()).with_read_limit(ms(10)).with_write_limit(ms(10));
            let guard = Arc::new(Mutex::new(guard));
            let mut waits = task(&guard, op);
            assert_pending!(waits.poll());
            advance(late).await;
            hand.make_ready(op);
            assert_ready_ok!(waits.poll());
            assert_pending!(waits.poll());
            advance(ms(10)).await;
            passed(assert_ready!(waits.poll()));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_timer_that_nobody_needs_any_more_wakes_its_task_once_and_harms_nothing() {
    let wheel = TimingWheel::new();
    let hand = ByHand::default();
    let guard = Arc::new(Mutex::new(wheel.idle_guard(hand.clone()).with_read_limit(ms(10))));
    let mut read = task(&guard, Op::Read);
    assert_pending!(read.poll());
    hand.make_ready(Op::Read);
    assert_ready_ok!(read.poll());
    assert_eq!(wheel.pending(), 1, "it is left where it is");
    advance(ms(10)).await;
    assert!(read.is_woken());
    assert_eq!((wheel.pending(), wheel.stats().fired), (0, 1));

    assert_pending!(read.poll());
    advance(ms(4)).await;
    assert!(!read.is_woken());
    hand.make_ready(Op::Read);
    assert_ready_ok!(read.poll());
    advance(DAY).await;
    assert_eq!(wheel.stats().armed, 2);
}

#[tokio::test(start_paused = true)]
async fn a_timer_is_moved_with_progress_and_wakes_nobody_before_half_of_the_limit() {
    let wheel = TimingWheel::new();
    let hand = ByHand::default();
    let guard = Arc::new(Mutex::new(wheel.idle_guard(hand.clone()).with_read_limit(ms(10))));
    let mut read = task(&guard, Op::Read);
    for _ in 0..100 {
        assert_pending!(read.poll());
        advance(ms(4)).await;
        assert!(!read.is_woken());
        hand.make_ready(Op::Read);
        assert_ready_ok!(read.poll());
    }
    assert_eq!((wheel.stats().armed, wheel.stats().fired, wheel.pending()), (1, 0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_timer_that_was_left_for_the_next_wait_wakes_its_task_early_and_then_at_the_deadline() {
    let start = tokio::time::Instant::now();
    let wheel = TimingWheel::new();
    let hand = ByHand::default();
    let guard = Arc::new(Mutex::new(wheel.idle_guard(hand.clone()).with_read_limit(ms(10))));
    let mut read = task(&guard, Op::Read);
    assert_pending!(read.poll());
    advance(ms(2)).await;
    hand.make_ready(Op::Read);
    assert_ready_ok!(read.poll());
    assert_pending!(read.poll());
    for at in [5, 7] {
        advance(ms(at - 2) - (tokio::time::Instant::now() - start - ms(2))).await;
        assert!(read.is_woken(), "where it was left, and at half of the limit");
        assert_pending!(read.poll());
    }
    advance(ms(4)).await;
    assert!(!read.is_woken());
    advance(ms(1)).await;
    assert!(read.is_woken());
    passed(assert_ready!(read.poll()));
    assert_eq!(wheel.stats().armed, 3);
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_was_given_up_does_not_keep_its_task_busy() {
    let wheel = TimingWheel::new();
    let (_peer, stream) = duplex(1);
    let mut stream = wheel.idle_guard(stream).with_read_limit(ms(10)).with_write_limit(DAY);
    let mut polls = 0_u32;
    let mut work = spawn(poll_fn(|cx| {
        polls += 1;
        if polls == 1 {
            assert_pending!(poll(&mut stream, Op::Read, cx));
            assert!(poll(&mut stream, Op::Write, cx).is_ready());
        }
        // From now on nobody reads.
        poll(&mut stream, Op::Write, cx)
    }));
    assert_pending!(work.poll());
    for _ in 0..100 {
        advance(ms(1)).await;
        while work.is_woken() {
            assert_pending!(work.poll());
        }
    }
    drop(work);
    assert!(polls <= 3, "{polls} polls");
}

/// Uses up the cooperative budget of the task, as a stream that always has more does.
fn spend_budget(cx: &mut Context<'_>) {
    while coop::has_budget_remaining() {
        assert_ready!(coop::poll_proceed(cx)).made_progress();
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_without_budget_is_not_told_that_nothing_has_arrived() {
    let wheel = TimingWheel::new();
    let (mut peer, stream) = duplex(4);
    let mut stream = wheel.idle_guard(stream).with_read_limit(ms(10));
    let mut read = spawn(poll_fn(|cx| poll(&mut stream, Op::Read, cx)));
    assert_pending!(read.poll());
    advance(ms(20)).await;
    peer.write_u8(7).await.unwrap();
    poll_fn(|cx| {
        spend_budget(cx);
        Poll::Ready(())
    })
    .await;
    assert_pending!(read.poll());
    tokio::task::yield_now().await;
    assert_ready_ok!(read.poll());
}

#[tokio::test(start_paused = true)]
async fn a_task_that_only_ever_finds_its_limit_passed_lets_others_run() {
    let mut stream = TimingWheel::new().idle_guard(ByHand::default()).with_read_limit(Duration::ZERO);
    let other = tokio::spawn(future::ready(()));
    let mut rounds = 0;
    while !other.is_finished() {
        passed(stream.read_u8().await);
        rounds += 1;
        assert!(rounds < 10_000, "the other task never runs");
    }
}
