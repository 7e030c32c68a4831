//! When an operation has waited for too long, and what counts as waiting.

use std::io;
use std::time::Duration;

use timingwheel::TimingWheel;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::join;
use tokio::time::{Instant, interval, sleep};

use crate::by_hand::{ByHand, Op, WRITES, poll};
use crate::{DAY, ms, passed};

const FULL: &[u8] = b"full";

#[tokio::test(start_paused = true)]
async fn a_read_that_waits_to_its_limit_is_an_error_that_says_so() {
    for limit in [ms(1), ms(30_000), DAY] {
        let (_peer, stream) = duplex(4);
        let mut stream = TimingWheel::new().idle_guard(stream).with_read_limit(limit);
        let start = Instant::now();
        let text = passed(stream.read_u8().await);
        assert_eq!(start.elapsed(), limit);
        assert_eq!(text, format!("a read has waited for {limit:?} without a byte, its limit"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_that_waits_to_its_limit_is_an_error_that_says_so() {
    let (_peer, stream) = duplex(FULL.len());
    let mut stream = TimingWheel::new().idle_guard(stream).with_write_limit(ms(10));
    stream.write_all(FULL).await.unwrap();
    let start = Instant::now();
    let text = passed(stream.write_all(b"!").await);
    assert_eq!(start.elapsed(), ms(10));
    assert_eq!(text, "a write has waited for 10ms without progress, its limit");
}

#[tokio::test(start_paused = true)]
async fn whatever_writes_has_the_write_limit() {
    for op in WRITES {
        let mut stream =
            TimingWheel::new().idle_guard(ByHand::default()).with_write_limit(ms(10)).with_read_limit(ms(5));
        let start = Instant::now();
        let text = passed(std::future::poll_fn(|cx| poll(&mut stream, op, cx)).await);
        assert_eq!((start.elapsed(), text.contains("write")), (ms(10), true), "{op:?}");
        stream.get_ref().make_ready(op);
        std::future::poll_fn(|cx| poll(&mut stream, op, cx)).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_sends_just_before_each_limit_is_read_to_its_end() {
    let (mut peer, stream) = duplex(4);
    let mut stream = TimingWheel::new().idle_guard(stream).with_read_limit(ms(10));
    let slow = async {
        for _ in 0..100 {
            sleep(ms(9)).await;
            peer.write_u8(7).await.unwrap();
        }
        peer
    };
    let start = Instant::now();
    let read = async {
        let mut read = Vec::new();
        passed(stream.read_to_end(&mut read).await);
        (read.len(), start.elapsed())
    };
    let (_peer, read) = join!(slow, read);
    assert_eq!(read, (100, ms(910)));
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_takes_just_before_each_limit_is_written_to_until_it_stops() {
    let (mut peer, stream) = duplex(FULL.len());
    let mut stream = TimingWheel::new().idle_guard(stream).with_write_limit(ms(10));
    let slow = async {
        for _ in 0..100 {
            sleep(ms(9)).await;
            peer.read_u8().await.unwrap();
        }
        peer
    };
    let start = Instant::now();
    let write = async {
        passed(stream.write_all(&[7; 1_000]).await);
        start.elapsed()
    };
    let (_peer, write) = join!(slow, write);
    assert_eq!(write, ms(910));
}

#[tokio::test(start_paused = true)]
async fn each_limit_is_that_of_its_own_direction() {
    type Limit = Option<Duration>;
    let outcomes: [(Limit, Limit); 5] = [
        (Some(ms(10)), None),
        (None, Some(ms(10))),
        (Some(ms(10)), Some(ms(20))),
        (Some(ms(20)), Some(ms(10))),
        (Some(ms(10)), Some(ms(10))),
    ];
    for (read_limit, write_limit) in outcomes {
        let (_peer, stream) = duplex(FULL.len());
        let mut stream = TimingWheel::new().idle_guard(stream);
        stream.set_read_limit(read_limit);
        stream.set_write_limit(write_limit);
        assert_eq!((stream.read_limit(), stream.write_limit()), (read_limit, write_limit));
        stream.write_all(FULL).await.unwrap();
        let (mut read, mut write) = tokio::io::split(stream);
        let start = Instant::now();
        let read = async { (read.read_u8().await.map(drop), start.elapsed()) };
        let write = async { (write.write_all(b"!").await, start.elapsed()) };
        let read = async { tokio::time::timeout(DAY, read).await };
        let write = async { tokio::time::timeout(DAY, write).await };
        let (read, write) = join!(read, write);
        for (outcome, limit) in [(read, read_limit), (write, write_limit)] {
            assert_eq!(outcome.as_ref().ok().map(|outcome| outcome.1), limit);
            outcome.into_iter().for_each(|(result, _)| _ = passed(result));
        }
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
    assert_eq!((stream.read_limit(), wheel.stats().armed), (None, 0));
}

#[tokio::test(start_paused = true)]
async fn time_in_which_nobody_reads_does_not_count() {
    let (mut peer, stream) = duplex(4);
    let mut stream = TimingWheel::new().idle_guard(stream).with_read_limit(ms(10));
    for _ in 0..3 {
        let (read, _) = join!(stream.read_u8(), async {
            sleep(ms(5)).await;
            peer.write_u8(7).await.unwrap();
        });
        assert_eq!(read.unwrap(), 7);
        sleep(ms(100)).await;
    }
    let start = Instant::now();
    passed(stream.read_u8().await);
    assert_eq!(start.elapsed(), ms(10));
}

#[tokio::test(start_paused = true)]
async fn a_read_that_is_dropped_and_begun_again_has_waited_since_the_first() {
    let (_peer, stream) = duplex(4);
    let mut stream = TimingWheel::new().idle_guard(stream).with_read_limit(ms(10));
    let start = Instant::now();
    let mut others = interval(ms(1));
    let result = loop {
        tokio::select! {
            biased;
            read = stream.read_u8() => break read,
            _ = others.tick() => {}
        }
    };
    passed(result);
    assert_eq!(start.elapsed(), ms(10));
}

#[tokio::test(start_paused = true)]
async fn after_an_error_the_next_operation_starts_anew_and_the_stream_works() {
    let (mut peer, stream) = duplex(4);
    let mut stream = TimingWheel::new().idle_guard(stream).with_read_limit(ms(10));
    for _ in 0..3 {
        let start = Instant::now();
        passed(stream.read_u8().await);
        assert_eq!(start.elapsed(), ms(10));
    }
    peer.write_all(&[1, 2]).await.unwrap();
    assert_eq!(stream.read_u16().await.unwrap(), 0x0102);
    let start = Instant::now();
    passed(stream.read_u8().await);
    assert_eq!(start.elapsed(), ms(10));
}

#[tokio::test(start_paused = true)]
async fn a_limit_of_zero_refuses_to_wait_and_reads_what_is_there() {
    let (mut peer, stream) = duplex(4);
    let mut stream = TimingWheel::new().idle_guard(stream).with_read_limit(Duration::ZERO);
    peer.write_u8(7).await.unwrap();
    assert_eq!(stream.read_u8().await.unwrap(), 7);
    let start = Instant::now();
    assert_eq!(passed(stream.read_u8().await), "a read found no byte, and may not wait: its limit is 0ns");
    stream.set_write_limit(Some(Duration::ZERO));
    stream.write_u32(7).await.unwrap();
    assert_eq!(
        passed(stream.write_u8(7).await),
        "a write made no progress, and may not wait: its limit is 0ns"
    );
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_closes_is_no_silent_peer() {
    let (peer, stream) = duplex(4);
    let mut stream = TimingWheel::new().idle_guard(stream).with_read_limit(ms(10)).with_write_limit(ms(10));
    let (read, ()) = join!(stream.read_u8(), async {
        sleep(ms(5)).await;
        drop(peer);
    });
    assert_eq!(read.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    assert_eq!(stream.write_u8(7).await.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
}

/// As a sink does that flushes at every occasion, while its peer takes nothing.
#[tokio::test(start_paused = true)]
async fn a_flush_with_nothing_to_flush_is_no_progress_of_a_write() {
    let hand = ByHand::default();
    let mut stream = TimingWheel::new().idle_guard(hand.clone()).with_write_limit(ms(10));
    let start = Instant::now();
    let mut others = interval(ms(3));
    let result = loop {
        tokio::select! {
            biased;
            written = stream.write_u8(7) => break written,
            _ = others.tick() => {
                hand.make_ready(Op::Flush);
                stream.flush().await.unwrap();
            }
        }
    };
    passed(result);
    assert_eq!(start.elapsed(), ms(10));
}

#[tokio::test(start_paused = true)]
async fn progress_of_what_writes_ends_the_wait_of_a_flush() {
    for (op, ends) in [(Op::Flush, true), (Op::Write, true), (Op::Shutdown, true), (Op::Read, false)] {
        let hand = ByHand::default();
        let mut stream = TimingWheel::new().idle_guard(hand.clone()).with_write_limit(ms(10));
        let start = Instant::now();
        assert!(tokio::time::timeout(ms(6), stream.flush()).await.is_err());
        hand.make_ready(op);
        std::future::poll_fn(|cx| poll(&mut stream, op, cx)).await.unwrap();
        passed(stream.flush().await);
        assert_eq!(start.elapsed(), if ends { ms(16) } else { ms(10) }, "{op:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_flush_that_waited_and_is_done_is_progress_of_a_write() {
    let hand = ByHand::default();
    let mut stream = TimingWheel::new().idle_guard(hand.clone()).with_write_limit(ms(10));
    assert!(tokio::time::timeout(ms(1), stream.write_all(FULL)).await.is_err());
    assert!(tokio::time::timeout(ms(1), stream.flush()).await.is_err());
    hand.make_ready(Op::Flush);
    stream.flush().await.unwrap();
    sleep(DAY).await;
    let start = Instant::now();
    passed(stream.write_all(FULL).await);
    assert_eq!(start.elapsed(), ms(10));
}
