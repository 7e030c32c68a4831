//! The wheel behind a guard: its end, its bound, its timers, and their tolerance.

use std::io::ErrorKind;
use std::sync::{Arc, Mutex};

use timingwheel::{IdleGuard, TimingWheel};
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex, split};
use tokio::net::TcpStream;
use tokio::time::{Instant, advance, sleep, timeout};
use tokio_test::task::spawn;
use tokio_test::{assert_pending, assert_ready, assert_ready_ok};

use super::by_hand::{ByHand, Op, task};
use super::{DAY, ms, passed};

/// Why an operation could not be timed.
#[track_caller]
fn refused(result: std::io::Result<()>) -> timingwheel::Error {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Other);
    *error.get_ref().unwrap().downcast_ref().unwrap()
}

fn guard(wheel: &TimingWheel) -> IdleGuard<ByHand> {
    wheel.idle_guard(ByHand::default()).with_read_limit(ms(10)).with_write_limit(ms(20))
}

#[tokio::test(start_paused = true)]
async fn an_operation_that_waits_as_the_wheel_ends_is_refused_unless_its_deadline_has_passed() {
    for read_has_passed in [false, true] {
        let wheel = TimingWheel::new();
        let guard = Arc::new(Mutex::new(guard(&wheel)));
        let (mut read, mut write) = (task(&guard, Op::Read), task(&guard, Op::Write));
        assert_pending!(read.poll());
        assert_pending!(write.poll());
        if read_has_passed {
            advance(ms(15)).await;
        }
        assert_eq!(wheel.shutdown(), if read_has_passed { 0 } else { 2 });
        assert!(read.is_woken() && write.is_woken());
        let read = assert_ready!(read.poll());
        if read_has_passed {
            passed(read);
        } else {
            assert!(refused(read).is_shutdown());
        }
        assert!(refused(assert_ready!(write.poll())).is_shutdown());
    }
}

#[tokio::test(start_paused = true)]
async fn after_the_wheels_end_what_is_ready_passes_and_what_has_to_wait_is_refused() {
    let wheel = TimingWheel::new();
    let (mut peer, stream) = duplex(1);
    let mut stream = wheel.idle_guard(stream).with_read_limit(DAY).with_write_limit(DAY);
    wheel.shutdown();
    for _ in 0..2 {
        peer.write_u8(7).await.unwrap();
        assert_eq!(stream.read_u8().await.unwrap(), 7);
        assert!(refused(stream.read_u8().await.map(drop)).is_shutdown());
    }
    stream.write_u8(7).await.unwrap();
    assert!(refused(stream.write_u8(7).await).is_shutdown());
    stream.set_write_limit(None);
    let (written, read) = tokio::join!(stream.write_u8(7), peer.read_u16());
    assert_eq!((written.is_ok(), read.unwrap()), (true, 0x0707));
}

#[tokio::test(start_paused = true)]
async fn where_there_is_no_place_for_the_timer_an_operation_is_refused_until_there_is() {
    let wheel = TimingWheel::builder().max_pending(1).build().unwrap();
    let place = wheel.try_sleep(DAY).unwrap();
    let mut stream = guard(&wheel);
    assert!(refused(stream.read_u8().await.map(drop)).is_at_capacity());
    assert!(refused(stream.flush().await).is_at_capacity());
    drop(place);
    passed(stream.read_u8().await);
    let _place = wheel.try_sleep(DAY).unwrap();
    assert!(refused(stream.read_u8().await.map(drop)).is_at_capacity());
}

#[tokio::test(start_paused = true)]
async fn a_timer_for_each_direction_stays_from_wait_to_wait_and_goes_with_the_guard() {
    let wheel = TimingWheel::new();
    let shared = Arc::new(Mutex::new(guard(&wheel)));
    let hand = shared.lock().unwrap().get_ref().clone();
    assert_eq!(wheel.pending(), 0);
    let (mut read, mut write) = (task(&shared, Op::Read), task(&shared, Op::Write));
    for _ in 0..10 {
        assert_pending!(read.poll());
        assert_pending!(write.poll());
        assert_eq!(wheel.pending(), 2);
        hand.make_ready(Op::Read);
        hand.make_ready(Op::Write);
        assert_ready_ok!(read.poll());
        assert_ready_ok!(write.poll());
    }
    drop((read, write));
    let stream = Arc::into_inner(shared).unwrap().into_inner().unwrap();
    assert_eq!((wheel.pending(), wheel.stats().armed), (2, 2));
    drop(stream);
    assert_eq!((wheel.pending(), wheel.stats().cancelled), (0, 2));

    let mut stream = guard(&wheel);
    assert!(timeout(ms(1), stream.read_u8()).await.is_err());
    assert_eq!(wheel.pending(), 1);
    let _hand: ByHand = stream.into_inner();
    assert_eq!(wheel.pending(), 0);
}

#[tokio::test]
async fn the_stream_can_be_looked_at_and_is_used_as_it_is() {
    let wheel = TimingWheel::new();
    let mut stream = wheel.idle_guard(ByHand::default()).with_read_limit(ms(10));
    assert!(tokio::io::AsyncWrite::is_write_vectored(&stream));
    assert!(!tokio::io::AsyncWrite::is_write_vectored(
        &wheel.idle_guard(tokio_test::io::Builder::new().build())
    ));
    stream.get_mut().make_ready(Op::Read);
    assert_eq!(stream.get_mut().read_u8().await.unwrap(), b'!');
    let text = format!("{:?}", wheel.idle_guard("a stream").with_read_limit(ms(10)));
    assert_eq!(
        text,
        r#"IdleGuard { stream: "a stream", read_limit: Some(10ms), write_limit: None, idle_limit: None, .. }"#
    );
}

#[test]
fn a_guard_is_what_its_stream_is() {
    fn is_all<T: Send + Sync + Unpin + 'static>() {}
    is_all::<IdleGuard<TcpStream>>();
    // Beside the stream; a server holds very many.
    assert!(size_of::<IdleGuard<()>>() <= 80);
}

#[tokio::test(start_paused = true)]
async fn a_write_that_begins_after_the_silence_and_before_the_reads_timer_ends_at_once() {
    let (wheel, tolerance) = (TimingWheel::new(), ms(10_000));
    let (mut peer, stream) = duplex(8);
    let guard = wheel.idle_guard(stream).with_tolerance(tolerance);
    let (mut reads, mut writes) = split(guard.with_idle_limit(ms(10_000)));
    // A write has waited before.
    writes.write_all(&[0; 8]).await.unwrap();
    assert_pending!(spawn(writes.write_u8(0)).poll());
    peer.read_exact(&mut [0; 8]).await.unwrap();
    writes.write_all(&[0; 8]).await.unwrap();
    sleep(ms(40_000)).await;
    // Until the read's timer will be over a second later than its limit.
    let first = ms(5_000);
    while wheel.sleep(first).with_tolerance(tolerance).deadline() - Instant::now() < ms(12_000) {
        advance(ms(100)).await;
    }
    assert_pending!(spawn(reads.read_u8()).poll());
    wheel.sleep(ms(11_500)).await;
    let error = assert_ready!(spawn(writes.write_u8(0)).poll()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
}

#[tokio::test(start_paused = true)]
async fn a_tolerance_is_that_of_reads_and_writes_set_before_their_limits_or_after() {
    let (limit, tolerance) = (ms(60_000), ms(7_500));
    let wheel = TimingWheel::new();
    advance(ms(12_345)).await;
    for (op, is_first) in [(Op::Read, true), (Op::Write, true), (Op::Read, false), (Op::Write, false)] {
        let guard = wheel.idle_guard(ByHand::default());
        let guard = if is_first { guard.with_tolerance(tolerance) } else { guard };
        let guard = guard.with_read_limit(limit).with_write_limit(limit);
        let guard = if is_first { guard } else { guard.with_tolerance(tolerance) };
        let expected = wheel.sleep(limit).with_tolerance(tolerance).deadline();
        passed(task(&Arc::new(Mutex::new(guard)), op).into_inner().await);
        assert_eq!(Instant::now(), expected, "{op:?}, first: {is_first}");
    }
    assert_eq!(wheel.stats().cascaded, 0);
}
