//! Operations that were dropped while they waited: no longer than half of the limit do they count.

use std::sync::{Arc, Mutex};

use timingwheel::TimingWheel;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::mpsc;
use tokio::time::{Instant, advance, interval_at, sleep, timeout};
use tokio_test::{assert_pending, assert_ready};

use crate::by_hand::{ByHand, Op, task};
use crate::{DAY, ms, passed};

const LIMIT: u64 = 30_000;

fn stream() -> (DuplexStream, timingwheel::IdleGuard<DuplexStream>) {
    let (peer, stream) = duplex(4);
    let guard = TimingWheel::new().idle_guard(stream);
    (peer, guard.with_read_limit(ms(LIMIT)).with_write_limit(ms(LIMIT)))
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_works_for_longer_than_the_limit_leaves_the_whole_of_it_to_the_next_read() {
    let (_peer, mut stream) = stream();
    let (sender, mut work) = mpsc::channel(1);
    sender.send(ms(40_000)).await.unwrap();
    for _ in 0..3 {
        tokio::select! {
            biased;
            read = stream.read_u8() => panic!("{read:?}"),
            Some(takes) = work.recv() => sleep(takes).await,
        }
        sender.send(ms(40_000)).await.unwrap();
    }
    let start = Instant::now();
    passed(stream.read_u8().await);
    assert_eq!(start.elapsed(), ms(LIMIT));
}

#[tokio::test(start_paused = true)]
async fn a_read_that_was_dropped_counts_no_more_once_half_of_the_limit_has_passed_without_a_poll() {
    for (dropped_for, left) in [
        // The rest of the limit.
        (0, LIMIT - 1),
        (10_000, LIMIT - 10_001),
        (14_998, LIMIT - 14_999),
        // Within a second after the timer has asked.
        (14_999 + 1_000, LIMIT - 14_999 - 1_001),
        // All of it.
        (14_999 + 1_001, LIMIT),
        (29_000, LIMIT),
        (31_000, LIMIT),
        (90_000, LIMIT),
    ] {
        for op in [Op::Read, Op::Write] {
            let guard = TimingWheel::new().idle_guard(ByHand::default());
            let guard = Arc::new(Mutex::new(guard.with_read_limit(ms(LIMIT)).with_write_limit(ms(LIMIT))));
            let dropped = timeout(ms(1), task(&guard, op).into_inner()).await;
            assert!(dropped.is_err(), "it waits");
            sleep(ms(dropped_for)).await;
            let start = Instant::now();
            passed(task(&guard, op).into_inner().await);
            assert_eq!(start.elapsed(), ms(left), "{op:?} after {dropped_for} ms");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_read_in_a_select_loop_fails_on_the_instant_however_seldom_the_loop_turns() {
    for period in [1, 999, 7_000, 14_999, 15_000, 16_000, 20_000, 29_999] {
        let (_peer, mut stream) = stream();
        let start = Instant::now();
        let mut others = interval_at(start + ms(period), ms(period));
        loop {
            tokio::select! {
                read = stream.read_u8() => {
                    passed(read);
                    break;
                }
                _ = others.tick() => {}
            }
        }
        assert_eq!(start.elapsed(), ms(LIMIT), "every {period} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn pings_that_are_written_do_not_hide_that_nothing_answers() {
    let (mut peer, mut stream) = stream();
    let reads = tokio::spawn(async move { while peer.read_u8().await.is_ok() {} });
    let start = Instant::now();
    let mut pings = interval_at(start, ms(10_000));
    loop {
        tokio::select! {
            read = stream.read_u8() => {
                passed(read);
                break;
            }
            _ = pings.tick() => stream.write_u8(b'?').await.unwrap(),
        }
    }
    assert_eq!(start.elapsed(), ms(LIMIT));
    reads.abort();
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_the_next_operation_has_the_whole_limit() {
    for pinned in [false, true] {
        let (_peer, mut stream) = stream();
        assert!(timeout(ms(1), stream.read_u8()).await.is_err());
        sleep(ms(10_000)).await;
        if pinned {
            std::pin::Pin::new(&mut stream).restart_pinned();
        } else {
            stream.restart();
        }
        let start = Instant::now();
        passed(stream.read_u8().await);
        assert_eq!(start.elapsed(), ms(LIMIT));
    }
}

#[tokio::test(start_paused = true)]
async fn an_operation_that_was_dropped_wakes_its_task_once_and_then_no_more() {
    let wheel = TimingWheel::new();
    let guard = wheel.idle_guard(ByHand::default()).with_read_limit(ms(LIMIT));
    let guard = Arc::new(Mutex::new(guard));
    let mut read = task(&guard, Op::Read);
    assert_pending!(read.poll());
    advance(DAY).await;
    assert!(read.is_woken());
    assert_eq!((wheel.stats().fired, wheel.pending()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_task_that_is_polled_within_a_second_after_it_was_woken_gets_its_error() {
    for (late, fails) in [(0, true), (999, true), (1_000, true), (1_001, false)] {
        let guard = TimingWheel::new().idle_guard(ByHand::default()).with_read_limit(ms(LIMIT));
        let guard = Arc::new(Mutex::new(guard));
        let mut read = task(&guard, Op::Read);
        assert_pending!(read.poll());
        advance(ms(LIMIT / 2)).await;
        assert_pending!(read.poll());
        advance(ms(LIMIT / 2)).await;
        assert!(read.is_woken());
        advance(ms(late)).await;
        if fails {
            passed(assert_ready!(read.poll()));
        } else {
            assert_pending!(read.poll());
        }
    }
}
