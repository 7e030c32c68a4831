//! After a stall of the whole runtime, input that arrived in time wins against its deadline. A worker that stalls delays no
//! timer of the other workers.
//!
//! On the real clock: the tests check an order of events. A run in which the input arrived too late proves nothing, and
//! is repeated.

use std::io::Write;
use std::net::TcpStream;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use timingwheel::TimingWheel;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio::time::Instant;

use crate::{ms, runtime};

const PEERS: usize = 20;
const PATIENCE: Duration = Duration::from_millis(300);

/// How many live peers were taken for dead, or `None` if their input was late.
async fn peers_cut_off(workers: usize) -> Option<usize> {
    let wheel = TimingWheel::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
    let address = listener.local_addr().expect("an address");
    let mut peers = Vec::new();
    let mut watches = Vec::new();
    for _ in 0..PEERS {
        let mut peer = TcpStream::connect(address).expect("a connection");
        peer.write_all(b"!").expect("an open connection");
        peers.push(peer);
        let (mut stream, _) = listener.accept().await.expect("a connection");
        stream.read_u8().await.expect("an open connection");
        let wheel = wheel.clone();
        watches.push(tokio::spawn(async move {
            let mut idle = pin!(wheel.sleep(PATIENCE));
            tokio::select! {
                biased;
                read = stream.read_u8() => read.is_err(),
                () = idle.as_mut() => true,
            }
        }));
    }
    let deadline = Instant::now() + PATIENCE;
    while wheel.pending() < PEERS {
        tokio::task::yield_now().await;
    }

    // All workers stall together; then the peers write, and the stall goes on until after all deadlines.
    let stalled = Arc::new(Barrier::new(workers));
    let peers = Arc::new(std::sync::Mutex::new(peers));
    let stalls: Vec<_> = (0..workers)
        .map(|_| {
            let (stalled, peers) = (stalled.clone(), peers.clone());
            tokio::spawn(async move {
                stalled.wait();
                for peer in peers.lock().expect("not poisoned").drain(..).collect::<Vec<_>>() {
                    (&peer).write_all(b"!").expect("an open connection");
                    // Open until the test ends.
                    std::mem::forget(peer);
                }
                let written = Instant::now();
                thread::sleep(deadline.saturating_duration_since(written) + Duration::from_millis(50));
                written
            })
        })
        .collect();
    let mut in_time = true;
    for stall in stalls {
        let written = stall.await.expect("the stall does not panic");
        in_time &= written + PATIENCE / 2 < deadline;
    }
    let mut cut_off = 0;
    for watch in watches {
        cut_off += usize::from(watch.await.expect("the watch does not panic"));
    }
    in_time.then_some(cut_off)
}

#[test]
fn input_comes_before_its_deadline_on_each_kind_of_runtime() {
    for workers in [0, 1, 2] {
        let runtime = runtime(workers);
        let run = || runtime.block_on(async { tokio::spawn(peers_cut_off(workers.max(1))).await.unwrap() });
        let cut_off = (0..5).find_map(|_| run());
        assert_eq!(cut_off.expect("input that is in time"), 0, "{workers} workers");
    }
}

#[test]
fn a_worker_that_goes_on_stalling_does_not_keep_the_timers_of_a_runtime_that_has_another() {
    let runtime = runtime(2);
    runtime.block_on(async {
        let wheel = TimingWheel::new();
        for _ in 0..2 {
            let still_stalls = Arc::new(AtomicBool::new(true));
            let sleep = wheel.sleep(ms(20));
            let sleeper = {
                let still_stalls = still_stalls.clone();
                tokio::spawn(async move {
                    sleep.await;
                    still_stalls.load(Ordering::SeqCst)
                })
            };
            tokio::time::sleep(ms(5)).await;
            // Both workers stall until after the deadline; then one task that stalls for long stands behind the driver.
            let short: Vec<_> = (0..2).map(|_| tokio::spawn(async move { thread::sleep(ms(40)) })).collect();
            thread::sleep(ms(25));
            let long = tokio::spawn(async move {
                thread::sleep(ms(300));
                still_stalls.store(false, Ordering::SeqCst);
            });
            assert!(
                sleeper.await.expect("the sleep does not panic"),
                "the timer waited for the stall to end"
            );
            for stall in short.into_iter().chain([long]) {
                stall.await.expect("the stall does not panic");
            }
        }
    });
}

/// A refused timer wakes the driver's task, to report it. The worker that then blocks holds that task, and the poller too.
#[test]
fn a_worker_that_blocks_and_holds_the_drivers_task_does_not_keep_the_timers_of_idle_ones() {
    let runtime = runtime(2);
    let comes_meanwhile = || {
        runtime.block_on(async {
            let wheel = TimingWheel::builder().max_pending(1).build().expect("within the limits");
            let blocks = Arc::new(AtomicBool::new(false));
            let timer = tokio::spawn({
                let (sleep, blocks) = (wheel.sleep(ms(60)), blocks.clone());
                async move {
                    sleep.await;
                    blocks.load(Ordering::SeqCst)
                }
            });
            let blocker = tokio::spawn(async move {
                // In the park of this worker, which so leaves the poller.
                tokio::time::sleep(ms(20)).await;
                assert!(wheel.sleep(ms(60)).wait().await.is_err(), "the wheel is full");
                blocks.store(true, Ordering::SeqCst);
                thread::sleep(ms(300));
                blocks.store(false, Ordering::SeqCst);
            });
            let comes_meanwhile = timer.await.expect("the sleep does not panic");
            blocker.await.expect("it does not panic");
            comes_meanwhile
        })
    };
    // In some runs the timer may come late for another reason, as the test may lose its core.
    let came = (0..5).filter(|_| comes_meanwhile()).take(3).count();
    assert_eq!(came, 3, "the timer waited for the blocked worker");
}

/// Without a timerfd the driver's task turned for the rest, and the worker that blocks held that task.
#[test]
fn a_worker_that_blocks_after_a_turn_that_left_a_rest_does_not_keep_the_rest() {
    const MANY: usize = 20_000;
    let runtime = runtime(2);
    let fired_meanwhile = || {
        runtime.block_on(async {
            let wheel = TimingWheel::builder().shards(1).build().expect("within the limits");
            let deadline = Instant::now() + ms(100);
            let blocks = Arc::new(AtomicBool::new(false));
            let sleepers: Vec<_> = (0..MANY)
                .map(|n| {
                    let (sleep, blocks) = (wheel.sleep_until(deadline), blocks.clone());
                    tokio::spawn(async move {
                        sleep.await;
                        // The first one that is woken, so in the first of the turns.
                        if n == 0 {
                            blocks.store(true, Ordering::SeqCst);
                            thread::sleep(ms(600));
                            blocks.store(false, Ordering::SeqCst);
                        }
                        n > 0 && blocks.load(Ordering::SeqCst)
                    })
                })
                .collect();
            let mut meanwhile = 0;
            for sleeper in sleepers {
                meanwhile += usize::from(sleeper.await.expect("the sleep does not panic"));
            }
            meanwhile
        })
    };
    // A turn fires so many at the most.
    let is_enough = |_| fired_meanwhile() > 4_096;
    assert!((0..3).any(is_enough), "the rest of {MANY} waited for the blocked worker");
}
