//! Events of a stream that is idle, while it stays usable.

use std::time::Duration;

use timingwheel::TimingWheel;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::time::{Instant, sleep, timeout};
use tokio_test::{assert_pending, assert_ready, assert_ready_ok, task::spawn};

use crate::by_hand::{ByHand, Op, poll};
use crate::{DAY, ms};

const AFTER: Duration = Duration::from_secs(10);

#[tokio::test(start_paused = true)]
async fn a_silent_stream_tells_so_in_each_period_and_can_be_used() {
    let (mut peer, stream) = duplex(4);
    let mut stream = TimingWheel::new().idle_guard(stream);
    let mut idle = stream.idle_events(AFTER);
    let start = Instant::now();
    for n in 1..=5 {
        idle.next().await;
        assert_eq!(start.elapsed(), n * AFTER);
    }
    peer.write_u8(7).await.unwrap();
    assert_eq!(stream.read_u8().await.unwrap(), 7);
    stream.write_u8(8).await.unwrap();
    assert_eq!(peer.read_u8().await.unwrap(), 8);
}

#[tokio::test(start_paused = true)]
async fn each_kind_counts_from_the_last_traffic_of_its_own() {
    let (mut peer, stream) = duplex(64);
    let mut stream = TimingWheel::new().idle_guard(stream);
    let (mut any, mut reads, mut writes) =
        (stream.idle_events(AFTER), stream.read_idle_events(AFTER), stream.write_idle_events(AFTER));
    let start = Instant::now();
    sleep(ms(3_000)).await;
    peer.write_u8(7).await.unwrap();
    stream.read_u8().await.unwrap();
    sleep(ms(3_000)).await;
    stream.write_u8(7).await.unwrap();
    sleep(ms(1_000)).await;
    // Nobody has looked before this.
    let ends = tokio::join!(
        async {
            reads.next().await;
            start.elapsed()
        },
        async {
            writes.next().await;
            start.elapsed()
        },
        async {
            any.next().await;
            start.elapsed()
        }
    );
    assert_eq!(ends, (ms(13_000), ms(16_000), ms(16_000)));
}

#[tokio::test(start_paused = true)]
async fn a_busy_stream_is_never_idle_and_its_timer_comes_due_once_in_a_period() {
    let wheel = TimingWheel::new();
    let (mut peer, stream) = duplex(4);
    let mut stream = wheel.idle_guard(stream);
    let mut idle = stream.idle_events(AFTER);
    let start = Instant::now();
    let busy = async {
        for _ in 0..1_000 {
            sleep(ms(100)).await;
            peer.write_u8(7).await.unwrap();
            stream.read_u8().await.unwrap();
        }
    };
    tokio::select! {
        () = busy => {}
        () = idle.next() => panic!("after {:?}", start.elapsed()),
    }
    assert!(wheel.stats().fired <= 11, "{:?}", wheel.stats());
    idle.next().await;
    assert_eq!(start.elapsed(), ms(100_000) + AFTER);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_nobody_waited_for_comes_at_once_and_the_next_a_period_later() {
    let (_peer, stream) = duplex(4);
    let mut stream = TimingWheel::new().idle_guard(stream);
    let mut idle = stream.idle_events(AFTER);
    sleep(DAY).await;
    let start = Instant::now();
    idle.next().await;
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert!(timeout(ms(4_000), idle.next()).await.is_err(), "dropped, which loses nothing");
    idle.next().await;
    assert_eq!(start.elapsed(), AFTER);
    drop(stream);
    idle.next().await;
    assert_eq!(start.elapsed(), 2 * AFTER);
}

#[tokio::test(start_paused = true)]
async fn an_event_whose_time_passed_before_anybody_waited_is_there_at_the_first_poll_and_is_not_late() {
    let (_peer, stream) = duplex(4);
    let wheel = TimingWheel::new();
    let mut stream = wheel.idle_guard(stream);
    let mut idle = stream.idle_events(AFTER);
    tokio::time::advance(DAY).await;
    assert_ready!(spawn(idle.next()).poll());
    assert_eq!(wheel.stats().lateness.max(), None);
}

#[tokio::test(start_paused = true)]
async fn a_flush_counts_as_a_write_if_it_had_to_wait() {
    for (waits, expected) in [(false, ms(10_000)), (true, ms(16_000))] {
        let hand = ByHand::default();
        let mut stream = TimingWheel::new().idle_guard(hand.clone()).with_write_limit(DAY);
        let mut idle = stream.write_idle_events(AFTER);
        let start = Instant::now();
        sleep(ms(6_000)).await;
        let mut flush = spawn(std::future::poll_fn(|cx| poll(&mut stream, Op::Flush, cx)));
        if waits {
            assert_pending!(flush.poll());
        }
        hand.make_ready(Op::Flush);
        assert_ready_ok!(flush.poll());
        idle.next().await;
        assert_eq!(start.elapsed(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn they_do_not_depend_on_limits_nor_limits_on_them() {
    let (_peer, stream) = duplex(4);
    let mut stream = TimingWheel::new().idle_guard(stream).with_read_limit(3 * AFTER);
    let mut idle = stream.idle_events(AFTER);
    let start = Instant::now();
    let mut events = 0;
    loop {
        tokio::select! {
            biased;
            read = stream.read_u8() => {
                crate::passed(read);
                break;
            }
            () = idle.next() => events += 1,
        }
    }
    assert_eq!((start.elapsed(), events), (3 * AFTER, 2));
}

#[tokio::test(start_paused = true)]
async fn on_a_wheel_that_has_ended_they_are_refused() {
    let wheel = TimingWheel::new();
    let (_peer, stream) = duplex(4);
    let mut idle = wheel.idle_guard(stream).idle_events(AFTER);
    let ends = async {
        sleep(ms(1)).await;
        wheel.shutdown();
    };
    let (result, ()) = tokio::join!(idle.try_next(), ends);
    assert!(result.unwrap_err().is_shutdown());
    assert!(idle.try_next().await.unwrap_err().is_shutdown());
    let panics = tokio::spawn(async move { idle.next().await }).await.unwrap_err();
    assert!(panics.is_panic());
}

#[tokio::test]
#[should_panic(expected = "idle events must come after at least 1ns, got 0ns")]
async fn a_period_of_zero_is_refused() {
    drop(TimingWheel::new().idle_guard(ByHand::default()).idle_events(Duration::ZERO));
}
