//! Limits on a bad day: a runtime that stalls, a clock that jumps, a wheel with a long tick. An operation that waits is ended
//! at the first chance after its limit, however late that is, and bytes that have arrived come before it.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use timingwheel::TimingWheel;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::task::yield_now;
use tokio::time::{Instant, advance, sleep, timeout};
use tokio_test::{assert_pending, assert_ready};

use crate::by_hand::{ByHand, Op, task};
use crate::{DAY, HANG_GUARD, ms, passed};

#[tokio::test(start_paused = true)]
async fn a_clock_that_jumps_past_the_limit_ends_whoever_waits_at_the_next_poll() {
    let limit = ms(30_000);
    // Past the half, then the end; or at once, by as much as may be.
    for jumps in [&[ms(15_000), ms(15_000)][..], &[ms(17_000), ms(17_000)], &[ms(31_000)], &[DAY]] {
        for op in [Op::Read, Op::Write] {
            let guard = TimingWheel::new().idle_guard(ByHand::default());
            let guard = Arc::new(Mutex::new(guard.with_read_limit(limit).with_write_limit(limit)));
            let mut waits = task(&guard, op);
            assert_pending!(waits.poll());
            let (last, before) = jumps.split_last().unwrap();
            for &jump in before {
                advance(jump).await;
                assert!(waits.is_woken());
                assert_pending!(waits.poll());
            }
            advance(*last).await;
            assert!(waits.is_woken());
            passed(assert_ready!(waits.poll()));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_read_that_was_dropped_before_a_late_turn_does_not_answer_it() {
    let guard = TimingWheel::new().idle_guard(ByHand::default()).with_read_limit(ms(30_000));
    let guard = Arc::new(Mutex::new(guard));
    assert_pending!(task(&guard, Op::Read).poll());
    advance(ms(40_000)).await;
    // Its task was woken then. A second later it is another read.
    advance(ms(1_001)).await;
    let mut read = task(&guard, Op::Read);
    assert_pending!(read.poll());
    advance(ms(15_000)).await;
    assert_pending!(read.poll());
    advance(ms(15_000)).await;
    passed(assert_ready!(read.poll()));
}

#[test]
fn on_a_runtime_that_stalls_for_longer_than_the_limit_each_time_a_read_ends() {
    let (stall, limit) = (ms(2_100), ms(2_000));
    Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        let (_peer, stream) = duplex(4);
        let mut guard = TimingWheel::new().idle_guard(stream).with_read_limit(limit);
        let read = tokio::spawn(async move { passed(guard.read_u8().await) });
        yield_now().await;
        for _ in 0..3 {
            thread::sleep(stall);
            // The runtime comes to its poller, and to all tasks that are woken there.
            sleep(ms(1)).await;
            yield_now().await;
        }
        assert!(read.is_finished(), "its limit had passed three times");
    });
}

#[test]
fn with_a_tick_as_long_as_the_answer_may_take_a_read_ends() {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap().block_on(async {
        let wheel = TimingWheel::builder().tick(ms(1_500)).shards(1).build().unwrap();
        // Others in every tick, so that the wheel is turned at the end of each.
        for n in 1..300 {
            let other = wheel.sleep(ms(20) * n);
            tokio::spawn(other);
        }
        let reads = (0..4).map(|n| {
            let wheel = wheel.clone();
            tokio::spawn(async move {
                sleep(ms(370) * n).await;
                let (_peer, stream) = duplex(4);
                let mut guard = wheel.idle_guard(stream).with_read_limit(ms(2_000));
                let start = Instant::now();
                passed(timeout(HANG_GUARD, guard.read_u8()).await.expect("its limit has passed"));
                assert!(start.elapsed() >= ms(2_000));
            })
        });
        for read in reads.collect::<Vec<_>>() {
            read.await.unwrap();
        }
    });
}

#[test]
fn bytes_that_arrived_while_the_runtime_stalled_come_before_the_limit() {
    const LIMIT: Duration = ms(100);
    Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (peer, accepted) =
            tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
        let mut peer = peer.unwrap().into_std().unwrap();
        let mut guard = TimingWheel::new().idle_guard(accepted.unwrap().0).with_read_limit(LIMIT);
        // After the half, and before it.
        for before in [LIMIT * 3 / 4, LIMIT / 4] {
            let read = async {
                let mut byte = [0];
                guard.read_exact(&mut byte).await.map(|_| byte)
            };
            let stalls = async {
                sleep(before).await;
                std::io::Write::write_all(&mut peer, b"!").unwrap();
                thread::sleep(LIMIT * 3);
            };
            let (read, ()) = tokio::join!(read, stalls);
            assert_eq!(read.unwrap(), *b"!");
        }
        guard.shutdown().await.unwrap();
    });
}
