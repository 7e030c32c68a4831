//! The limit for silence in both directions.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use timingwheel::TimingWheel;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional, duplex};
use tokio::time::{Instant, sleep};

use super::by_hand::{ByHand, Op, task};
use super::{DAY, ms, passed};

const LIMIT: Duration = Duration::from_secs(30);

#[tokio::test(start_paused = true)]
async fn a_proxy_copies_a_byte_a_second_for_as_long_as_it_comes_and_ends_after_the_limit() {
    for upload in [false, true] {
        let wheel = TimingWheel::new();
        let (mut sends, mut takes) = (duplex(64), duplex(64));
        if upload {
            std::mem::swap(&mut sends, &mut takes);
        }
        let (from, to) = if upload { (takes.0, sends.0) } else { (sends.0, takes.0) };
        let (mut from, mut to) = (from, to);
        let sends_slowly = tokio::spawn(async move {
            for _ in 0..300 {
                sleep(ms(1_000)).await;
                from.write_u8(7).await.unwrap();
            }
            (from, Instant::now())
        });
        let takes_all = tokio::spawn(async move { to.read_to_end(&mut Vec::new()).await });
        let mut left = wheel.idle_guard(sends.1).with_idle_limit(LIMIT);
        let mut right = wheel.idle_guard(takes.1).with_idle_limit(LIMIT);
        let text = passed(copy_bidirectional(&mut left, &mut right).await);
        assert_eq!(text, "no byte has passed for 30s, the idle limit");
        let (_from, last) = sends_slowly.await.unwrap();
        assert_eq!(last.elapsed(), LIMIT);
        takes_all.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn whatever_waits_fails_when_neither_direction_had_traffic() {
    for op in [Op::Read, Op::Write, Op::Flush, Op::Shutdown] {
        let hand = ByHand::default();
        let guard = TimingWheel::new().idle_guard(hand.clone()).with_idle_limit(LIMIT);
        let guard = Arc::new(Mutex::new(guard));
        let start = Instant::now();
        assert!(passed(task(&guard, op).into_inner().await).contains("idle"), "{op:?}");
        assert_eq!(start.elapsed(), LIMIT);
        passed(task(&guard, op).into_inner().await);
        assert_eq!(start.elapsed(), 2 * LIMIT, "the next starts anew");
    }
}

#[tokio::test(start_paused = true)]
async fn beside_a_limit_of_one_direction_the_earlier_counts_and_the_error_tells_which() {
    for (read, idle, expected) in [(10, 30, "the read limit"), (30, 10, "idle")] {
        let (_peer, stream) = duplex(4);
        let mut stream = TimingWheel::new().idle_guard(stream);
        stream.set_read_limit(Some(ms(read)));
        stream.set_idle_limit(Some(ms(idle)));
        let start = Instant::now();
        let text = passed(stream.read_u8().await);
        assert_eq!((text.contains(expected), start.elapsed()), (true, ms(10)), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn time_in_which_nobody_waits_and_reads_that_were_dropped_do_not_count() {
    let (mut peer, stream) = duplex(4);
    let mut stream = TimingWheel::new().idle_guard(stream).with_idle_limit(LIMIT);
    peer.write_u8(7).await.unwrap();
    stream.read_u8().await.unwrap();
    sleep(DAY).await;
    let start = Instant::now();
    assert!(tokio::time::timeout(ms(1), stream.read_u8()).await.is_err());
    sleep(DAY).await;
    assert!(tokio::time::timeout(ms(1), stream.write_all(&[0; 5])).await.is_err());
    sleep(DAY).await;
    let after = Instant::now();
    passed(stream.read_u8().await);
    assert_eq!((start.elapsed() > DAY, after.elapsed()), (true, LIMIT));
}
