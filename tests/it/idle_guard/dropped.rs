//! Dropped operations: the time of a dropped operation does not count for the next one. A live operation ends at the first
//! chance after its limit, however late that is.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use timingwheel::TimingWheel;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::yield_now;
use tokio::time::{Instant, interval_at, sleep, timeout};

use super::by_hand::{ByHand, Op, task};
use super::{HANG_GUARD, ms, passed};

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
async fn after_a_restart_the_next_operation_has_the_whole_limit() {
    let (_peer, mut stream) = stream();
    assert!(timeout(ms(1), stream.read_u8()).await.is_err());
    sleep(ms(10_000)).await;
    stream.restart();
    let start = Instant::now();
    passed(stream.read_u8().await);
    assert_eq!(start.elapsed(), ms(LIMIT));
}

#[test]
fn on_a_runtime_that_stalls_for_longer_than_the_limit_each_time_a_read_ends() {
    // Each stall ends more than a second after the first check of the read.
    let (stall, limit) = (ms(1_200), ms(200));
    crate::runtime(0).block_on(async {
        let (_peer, stream) = duplex(4);
        let mut guard = TimingWheel::new().idle_guard(stream).with_read_limit(limit);
        let read = tokio::spawn(async move { passed(guard.read_u8().await) });
        yield_now().await;
        for _ in 0..2 {
            thread::sleep(stall);
            // The runtime comes to its poller, and to all tasks that are woken there.
            sleep(ms(1)).await;
            yield_now().await;
        }
        assert!(read.is_finished(), "its limit had passed twice");
    });
}

#[test]
fn with_a_tick_as_long_as_the_answer_may_take_a_read_ends() {
    crate::runtime(2).block_on(async {
        let wheel = TimingWheel::builder().tick(ms(1_500)).shards(1).build().unwrap();
        // Others in every tick, so that the wheel is turned at the end of each: 1.4 s after the limit of a read that
        // began with a tick.
        for n in 1..3_000 {
            let other = wheel.sleep(ms(20) * n);
            tokio::spawn(other);
        }
        let reads = (0..4).map(|n| {
            let wheel = wheel.clone();
            tokio::spawn(async move {
                sleep(ms(370) * n).await;
                let (_peer, stream) = duplex(4);
                let mut guard = wheel.idle_guard(stream).with_read_limit(ms(1_600));
                let start = Instant::now();
                passed(timeout(HANG_GUARD, guard.read_u8()).await.expect("its limit has passed"));
                assert!(start.elapsed() >= ms(1_600));
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
    crate::runtime(0).block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (peer, accepted) =
            tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
        let mut peer = peer.unwrap().into_std().unwrap();
        let mut guard = TimingWheel::new().idle_guard(accepted.unwrap().0).with_read_limit(LIMIT);
        let stalls = async {
            // The read begins to wait.
            yield_now().await;
            std::io::Write::write_all(&mut peer, b"!").unwrap();
            thread::sleep(LIMIT * 3);
        };
        // After the stall the read is polled before the runtime has looked at its sockets.
        let ((), read) = tokio::join!(biased; stalls, guard.read_u8());
        assert_eq!(read.unwrap(), b'!');
        guard.shutdown().await.unwrap();
    });
}
