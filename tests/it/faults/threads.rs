//! Threads and tasks that end while they hold timers, or never poll them again.

use std::cell::RefCell;
use std::future::pending;
use std::pin::pin;
use std::task::Waker;
use std::thread;

use futures::stream;
use futures::stream::StreamExt;
use timingwheel::stream::StreamTimeExt;
use tokio::io::{AsyncRead, ReadBuf};
use tokio_test::assert_pending;

use super::*;

/// Waits, with a timer of each kind, for what never comes.
async fn wait_with_each_kind(wheel: TimingWheel) {
    let mut read_buffer = [0];
    let mut buffer = ReadBuf::new(&mut read_buffer);
    let (_peer, silent) = tokio::io::duplex(1);
    let mut guard = pin!(wheel.idle_guard(silent).with_read_limit(DAY));
    let read = std::future::poll_fn(|cx| guard.as_mut().poll_read(cx, &mut buffer));
    let mut interval = wheel.interval(DAY);
    interval.tick().await;
    let mut items = pin!(stream::pending::<()>().timeout_on(&wheel, DAY));
    tokio::select! {
        () = wheel.sleep(DAY) => {}
        _ = wheel.timeout(DAY, pending::<()>()) => {}
        _ = read => {}
        _ = interval.tick() => {}
        _ = items.next() => {}
    }
    unreachable!("nobody waits for a day");
}

/// How many timers that takes.
const KINDS: usize = 5;

#[test]
fn a_thread_that_dies_while_it_holds_timers_of_each_kind_leaves_none() {
    for workers in [0, 2] {
        let runtime = runtime(workers);
        let wheel = wheel_on(&runtime);
        let threads = [(); 4].map(|()| {
            let wheel = wheel.clone();
            thread::spawn(move || {
                let mut timers = tokio_test::task::spawn(wait_with_each_kind(wheel.clone()));
                assert_pending!(timers.poll());
                assert!(wheel.pending() >= KINDS);
                panic!("the thread dies");
            })
        });
        for thread in threads {
            assert!(thread.join().is_err());
        }
        let stats = assert_adds_up(&wheel);
        assert_eq!((stats.pending, stats.cancelled), (0, 4 * KINDS as u64));
    }
}

#[tokio::test(start_paused = true)]
async fn timers_that_are_forgotten_stay_to_their_deadline_and_harm_nobody() {
    let wheel = TimingWheel::builder().max_pending(1_001).build().unwrap();
    let counts = Counts::due_at(Instant::now() + ms(10));
    for _ in 0..1_000 {
        std::mem::forget(register(wheel.sleep(ms(10)), &counts.clone().into()));
    }
    assert_eq!(wheel.pending(), 1_000);
    wheel.sleep(ms(10)).await;
    assert_eq!((counts.woken(), counts.early()), (1_000, 0));
    assert_eq!(assert_adds_up(&wheel).fired, 1_001);
    let _places: Vec<_> = (0..1_001).map(|_| wheel.try_sleep(DAY).expect("no place was lost")).collect();
}

/// After a clock was paused anywhere in the process tokio's clock asks for the current runtime, which a thread that is
/// about to end does not know any more: it panics, and a panic there aborts the process.
#[test]
fn timers_that_are_dropped_with_the_locals_of_a_thread_after_a_clock_was_paused_end_nothing() {
    thread_local!(static LAST: RefCell<Vec<Sleep>> = const { RefCell::new(Vec::new()) });
    drop(crate::paused());
    for workers in [0, 2] {
        let runtime = runtime(workers);
        let wheel = wheel_on(&runtime);
        let (elsewhere, another) = (wheel.sleep(DAY), wheel.clone());
        let elsewhere = register(elsewhere, Waker::noop());
        let handle = runtime.handle().clone();
        let thread = thread::spawn(move || {
            // Before tokio's own, so that it is dropped after them.
            LAST.with_borrow_mut(|last| last.push(elsewhere));
            let _within = handle.enter();
            let timers = [(); 3].map(|()| register(another.sleep(DAY), Waker::noop()));
            LAST.with_borrow_mut(|last| last.extend(timers));
        });
        thread.join().unwrap();
        let stats = assert_adds_up(&wheel);
        assert_eq!((stats.pending, stats.cancelled), (0, 4));
    }
}
