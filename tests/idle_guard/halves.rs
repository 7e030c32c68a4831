//! The halves of a split stream, in tasks of their own: each waits for its own timer.

use std::sync::{Arc, Mutex};

use timingwheel::TimingWheel;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex, split};
use tokio::time::{Instant, advance};
use tokio_test::{assert_pending, assert_ready};

use crate::by_hand::{ByHand, Op, stuck, task};
use crate::{DAY, ms, passed};

#[tokio::test(start_paused = true)]
async fn each_half_fails_at_its_own_deadline_in_a_task_of_its_own() {
    for (read_limit, write_limit) in [(10, 25), (25, 10), (10, 10), (10, 11)] {
        let wheel = TimingWheel::new();
        let (mut read, mut write) = stuck(&wheel, read_limit, write_limit);
        let start = Instant::now();
        let read = tokio::spawn(async move {
            passed(read.read_u8().await);
            start.elapsed()
        });
        let write = tokio::spawn(async move {
            passed(write.write_u8(7).await);
            start.elapsed()
        });
        let (read, write) = tokio::join!(read, write);
        assert_eq!((read.unwrap(), write.unwrap()), (ms(read_limit), ms(write_limit)));
        assert!(wheel.stats().armed <= 4, "twice for each half");
    }
}

#[tokio::test(start_paused = true)]
async fn both_halves_in_one_task_fail_at_their_own_deadlines() {
    for (read_limit, write_limit) in [(10, 25), (25, 10), (10, 10)] {
        let (mut read, mut write) = stuck(&TimingWheel::new(), read_limit, write_limit);
        let start = Instant::now();
        let read = async {
            passed(read.read_u8().await);
            start.elapsed()
        };
        let write = async {
            passed(write.write_u8(7).await);
            start.elapsed()
        };
        assert_eq!(tokio::join!(read, write), (ms(read_limit), ms(write_limit)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_half_that_makes_progress_does_not_help_the_other() {
    let (mut peer, stream) = duplex(4);
    let wheel = TimingWheel::new();
    let (mut read, mut write) =
        split(wheel.idle_guard(stream).with_read_limit(ms(10)).with_write_limit(ms(25)));
    let start = Instant::now();
    let sends = tokio::spawn(async move {
        loop {
            peer.write_u8(7).await.unwrap();
            tokio::time::sleep(ms(3)).await;
        }
    });
    let reads = tokio::spawn(async move {
        loop {
            read.read_u8().await.unwrap();
        }
    });
    let write = tokio::spawn(async move {
        passed(write.write_all(&[7; 5]).await);
        start.elapsed()
    });
    assert_eq!(write.await.unwrap(), ms(25));
    sends.abort();
    reads.abort();
}

#[tokio::test(start_paused = true)]
async fn a_half_that_moves_to_another_task_is_woken_there() {
    let guard =
        TimingWheel::new().idle_guard(ByHand::default()).with_read_limit(ms(10)).with_write_limit(DAY);
    let guard = Arc::new(Mutex::new(guard));
    let mut tasks: Vec<_> = (0..4).map(|_| (task(&guard, Op::Read), task(&guard, Op::Write))).collect();
    for (read, write) in &mut tasks {
        assert_pending!(read.poll());
        assert_pending!(write.poll());
    }
    advance(ms(10)).await;
    let (read, write) = tasks.last_mut().unwrap();
    assert!(read.is_woken() && !write.is_woken());
    passed(assert_ready!(read.poll()));
    let (before, _) = &tasks[0];
    assert!(!before.is_woken());
}
