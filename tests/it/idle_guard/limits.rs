//! Limits: the texts of their errors, limits of zero and none, and the budget of tasks. `model` and `scripts` have the
//! rest.

use std::future::{self, poll_fn};
use std::task::Poll;
use std::time::Duration;

use timingwheel::TimingWheel;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::join;
use tokio::time::{Instant, advance, sleep};
use tokio_test::{assert_pending, assert_ready, assert_ready_ok, task::spawn};

use super::by_hand::{ByHand, Op, WRITES, poll};
use super::{DAY, ms, passed};
use crate::runtime;
use crate::streams::spend_budget;

#[tokio::test(start_paused = true)]
async fn a_read_that_waits_to_its_limit_is_an_error_that_says_so() {
    for limit in [ms(1), ms(30_000), DAY] {
        let (_peer, stream) = duplex(4);
        let mut stream = TimingWheel::new().idle_guard(stream).with_read_limit(limit);
        let start = Instant::now();
        let text = passed(stream.read_u8().await);
        assert_eq!(start.elapsed(), limit);
        assert_eq!(text, format!("no byte has been read for {limit:?}, the read limit"));
    }
}

#[tokio::test(start_paused = true)]
async fn whatever_writes_has_the_write_limit() {
    for op in WRITES {
        let mut stream =
            TimingWheel::new().idle_guard(ByHand::default()).with_write_limit(ms(10)).with_read_limit(ms(5));
        let start = Instant::now();
        let text = passed(poll_fn(|cx| poll(&mut stream, op, cx)).await);
        assert_eq!(start.elapsed(), ms(10), "{op:?}");
        assert_eq!(text, "writing has made no progress for 10ms, the write limit", "{op:?}");
        stream.get_ref().make_ready(op);
        poll_fn(|cx| poll(&mut stream, op, cx)).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_limit_the_wheel_is_not_touched() {
    let wheel = TimingWheel::builder().max_pending(0).build().unwrap();
    let (mut peer, stream) = duplex(4);
    let mut stream = wheel.idle_guard(stream);
    let late = async {
        sleep(DAY).await;
        peer.write_u8(7).await
    };
    let (read, _) = join!(stream.read_u8(), late);
    assert_eq!(read.unwrap(), 7);
    stream.set_read_limit(Some(Duration::MAX));
    assert_eq!(wheel.stats().armed, 0);
}

#[tokio::test(start_paused = true)]
async fn a_limit_of_zero_refuses_to_wait_and_reads_what_is_there() {
    let (mut peer, stream) = duplex(4);
    let mut stream = TimingWheel::new().idle_guard(stream).with_read_limit(Duration::ZERO);
    peer.write_u8(7).await.unwrap();
    assert_eq!(stream.read_u8().await.unwrap(), 7);
    let start = Instant::now();
    assert_eq!(passed(stream.read_u8().await), "no byte was there to read, and the read limit is 0ns");
    stream.set_write_limit(Some(Duration::ZERO));
    stream.write_u32(7).await.unwrap();
    assert_eq!(passed(stream.write_u8(7).await), "writing made no progress, and the write limit is 0ns");
    let mut stream = stream.with_tolerance(DAY);
    assert_eq!(passed(stream.read_u8().await), "no byte was there to read, and the read limit is 0ns");
    stream.set_read_limit(None);
    stream.set_idle_limit(Some(Duration::ZERO));
    assert_eq!(passed(stream.read_u8().await), "the stream was idle, and the idle limit is 0ns");
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[test]
fn a_limit_of_zero_that_is_set_while_a_read_waits_fails_at_once() {
    // Also where the clock cannot be paused: no turn comes between.
    let runtime = runtime(1);
    let _within = runtime.enter();
    let wheel = TimingWheel::new();
    let (_peer, stream) = duplex(8);
    let mut guard = wheel.idle_guard(stream).with_read_limit(DAY);
    let mut first = spawn(wheel.sleep(DAY));
    assert_pending!(first.poll());
    assert_pending!(spawn(guard.read_u8()).poll());
    guard.set_read_limit(Some(Duration::ZERO));
    passed(assert_ready!(spawn(guard.read_u8()).poll()));
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
