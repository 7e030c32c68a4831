//! Limits that may be late.

use std::io::ErrorKind;
use std::time::Duration;

use timingwheel::TimingWheel;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex, split};
use tokio::time::{Instant, advance, sleep};
use tokio_test::task::spawn;
use tokio_test::{assert_pending, assert_ready};

const LIMIT: Duration = Duration::from_secs(60);
const LATEST: Duration = Duration::from_millis(67_500);

#[tokio::test(start_paused = true)]
async fn a_tolerant_limit_is_never_early_and_late_by_less_than_it_may_be() {
    let wheel = TimingWheel::new();
    for limit in [1, 5, 50, 1_000, 5_003, 60_000].map(Duration::from_millis) {
        for is_first in [false, true] {
            let (_peer, stream) = duplex(8);
            let guard = wheel.idle_guard(stream);
            let mut guard = if is_first {
                guard.with_tolerance(limit / 8).with_read_limit(limit)
            } else {
                guard.with_read_limit(limit).with_tolerance(limit / 8)
            };
            let start = Instant::now();
            assert_eq!(guard.read_u8().await.unwrap_err().kind(), ErrorKind::TimedOut);
            let late = start.elapsed().checked_sub(limit).expect("it is not early");
            assert!(late < (limit / 8).max(Duration::from_millis(1)), "{limit:?}: {late:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_silent_among_many_connections_end_at_few_instants_and_their_timers_never_move() {
    let wheel = TimingWheel::new();
    let mut tasks = Vec::new();
    for _ in 0..1_000 {
        let (peer, stream) = duplex(8);
        let mut guard = wheel.idle_guard(stream).with_read_limit(LIMIT).with_tolerance(LIMIT / 8);
        tasks.push(tokio::spawn(async move {
            let start = Instant::now();
            assert!(guard.read_u8().await.is_err());
            assert!((LIMIT..LATEST).contains(&start.elapsed()));
            drop(peer);
            Instant::now()
        }));
        sleep(Duration::from_millis(3)).await;
    }
    let mut ends = Vec::new();
    for task in tasks {
        ends.push(task.await.unwrap());
    }
    ends.dedup();
    assert!(ends.len() <= 2, "{ends:?}");
    // Each also at half of its limit.
    assert_eq!((wheel.stats().fired, wheel.stats().cascaded), (2_000, 0));
}

#[tokio::test(start_paused = true)]
async fn a_busy_connection_ends_when_it_falls_silent() {
    let wheel = TimingWheel::new();
    let (mut peer, stream) = duplex(8);
    let mut guard = wheel.idle_guard(stream).with_read_limit(LIMIT).with_tolerance(LIMIT / 8);
    let writer = tokio::spawn(async move {
        for _ in 0..50 {
            sleep(Duration::from_secs(11)).await;
            peer.write_u8(1).await.unwrap();
        }
        (peer, Instant::now())
    });
    for _ in 0..50 {
        guard.read_u8().await.unwrap();
    }
    let (_peer, silent) = writer.await.unwrap();
    assert!(guard.read_u8().await.is_err());
    assert!((LIMIT..LATEST).contains(&silent.elapsed()));
    // Once before that, with nothing overdue.
    assert!(wheel.stats().fired <= 2, "{:?}", wheel.stats());
}

#[tokio::test(start_paused = true)]
async fn a_write_that_begins_after_the_silence_and_before_the_reads_timer_ends_at_once() {
    let (wheel, tolerance) = (TimingWheel::new(), Duration::from_secs(10));
    let (mut peer, stream) = duplex(8);
    let guard = wheel.idle_guard(stream).with_tolerance(tolerance);
    let (mut reads, mut writes) = split(guard.with_idle_limit(Duration::from_secs(10)));
    // A write has waited before.
    writes.write_all(&[0; 8]).await.unwrap();
    assert_pending!(spawn(writes.write_u8(0)).poll());
    peer.read_exact(&mut [0; 8]).await.unwrap();
    writes.write_all(&[0; 8]).await.unwrap();
    sleep(Duration::from_secs(40)).await;
    // Until the read's timer will be over a second later than its limit.
    let first = Duration::from_secs(5);
    while wheel.sleep(first).with_tolerance(tolerance).deadline() - Instant::now() < Duration::from_secs(12) {
        advance(Duration::from_millis(100)).await;
    }
    assert_pending!(spawn(reads.read_u8()).poll());
    wheel.sleep(Duration::from_millis(11_500)).await;
    let error = assert_ready!(spawn(writes.write_u8(0)).poll()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
}
