//! Halves whose tasks run at the same time.

use timingwheel::TimingWheel;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::Builder;
use tokio::time::{Instant, timeout};

use crate::by_hand::stuck;
use crate::{HANG_GUARD, ms, passed};

#[test]
fn halves_on_two_workers_all_fail_and_none_early() {
    const STREAMS: u64 = 500;
    const ROUNDS: usize = 10;
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let wheel = TimingWheel::new();
        let mut tasks = Vec::new();
        for n in 0..STREAMS {
            // At the same time, and one before the other.
            let (read_limit, write_limit) = (1 + n % 7, 1 + n % 5);
            let (mut read, mut write) = stuck(&wheel, read_limit, write_limit);
            tasks.push(tokio::spawn(async move {
                for _ in 0..ROUNDS {
                    let start = Instant::now();
                    passed(read.read_u8().await);
                    assert!(start.elapsed() >= ms(read_limit));
                }
            }));
            tasks.push(tokio::spawn(async move {
                for _ in 0..ROUNDS {
                    let start = Instant::now();
                    passed(write.write_u8(7).await);
                    assert!(start.elapsed() >= ms(write_limit));
                }
            }));
        }
        for task in tasks {
            timeout(HANG_GUARD, task).await.expect("it hangs").unwrap();
        }
        assert_eq!(wheel.pending(), 0);
    });
}
