//! Dropped operations: the time of a dropped operation does not count for the next one. A live operation ends at the first
//! chance after its limit, however late that is.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use timingwheel::TimingWheel;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep, timeout};

use super::by_hand::{ByHand, Op, task};
use super::{HANG_GUARD, ms, passed};

const LIMIT: u64 = 30_000;

fn stream() -> (DuplexStream, timingwheel::IdleGuard<DuplexStream>) {
    let (peer, stream) = duplex(4);
    let guard = TimingWheel::new().idle_guard(stream);
    (peer, guard.with_read_limit(ms(LIMIT)).with_write_limit(ms(LIMIT)))
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
async fn after_a_restart_the_next_operation_has_the_whole_limit() {
    let (_peer, mut stream) = stream();
    assert!(timeout(ms(1), stream.read_u8()).await.is_err());
    sleep(ms(10_000)).await;
    stream.restart();
    let start = Instant::now();
    passed(stream.read_u8().await);
    assert_eq!(start.elapsed(), ms(LIMIT));
}

#[tokio::test(start_paused = true)]
async fn with_a_tick_as_long_as_the_answer_may_take_a_read_ends() {
    let wheel = TimingWheel::builder().tick(ms(1_500)).build().unwrap();
    // Others in every tick, so that the wheel is turned at the end of each: 1.4 s after the limit of a read that
    // began with a tick.
    for n in 1..3_000 {
        tokio::spawn(wheel.sleep(ms(20) * n));
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
