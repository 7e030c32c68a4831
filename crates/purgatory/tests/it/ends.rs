//! The end of the wheel, of its runtime and of handles: every operation is told, and accounted for.

use std::error::Error;
use std::io::{self, ErrorKind};

use timingwheel::TimingWheel;
use timingwheel_purgatory::{Purgatory, WatchError};
use tokio_test::task::spawn;
use tokio_test::{assert_pending, assert_ready};

use crate::{DAY, Level, bounded, counts, ms, never, purgatory, wheel};

fn is_shutdown(error: WatchError) -> bool {
    matches!(error, WatchError::CouldNotRun(reason) if reason.is_shutdown())
}

#[tokio::test(start_paused = true)]
async fn an_operation_learns_that_its_wheel_ends_as_it_is_watched() {
    let wheel = wheel();
    let (ends, mut tries) = (wheel.clone(), 0);
    let watch = Purgatory::new(&wheel).watch(["key"], DAY, move || {
        tries += 1;
        // The second try comes when the timer is armed.
        if tries == 2 {
            ends.shutdown();
        }
        None::<()>
    });
    assert!(is_shutdown(watch.await.unwrap_err()));
}

#[tokio::test(start_paused = true)]
async fn a_wheel_that_is_full_refuses_operations_that_do_not_hold() {
    let wheel = bounded();
    let purgatory = Purgatory::new(&wheel);
    let mut first = spawn(purgatory.watch(["key"], DAY, never));
    assert_pending!(first.poll());
    let error = purgatory.watch(["key"], DAY, never).await.unwrap_err();
    assert!(matches!(error, WatchError::CouldNotRun(reason) if reason.is_at_capacity()));
    let text = "the operation could not be watched: the timing wheel is full (max_pending = ";
    assert!(error.to_string().starts_with(text), "{error}");
    assert_eq!(purgatory.watch(["key"], DAY, || Some(())).await, Ok(()));
    assert_eq!(counts(&purgatory), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn when_the_last_handle_is_gone_an_operation_still_expires() {
    let watch = purgatory().watch(["key"], ms(10), never);
    assert_eq!(watch.await, Err(WatchError::Expired));
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn where_a_wheel_ends_outside_its_runtime_operations_end_and_no_condition_runs() {
    let ends: [fn(tokio::runtime::Runtime, &TimingWheel); 3] = [
        |_runtime, wheel| assert_eq!(wheel.shutdown(), 1),
        |_runtime, wheel| {
            runtime().block_on(async {
                assert_eq!(wheel.shutdown(), 1);
                tokio::time::sleep(ms(1)).await;
            });
        },
        |runtime, _wheel| drop(runtime),
    ];
    for (end, is_polled) in ends.into_iter().flat_map(|end| [(end, false), (end, true)]) {
        let (runtime, level) = (runtime(), Level::default());
        let wheel = runtime.block_on(async { wheel() });
        let purgatory = Purgatory::new(&wheel);
        let mut watch = spawn(purgatory.watch(["key"], DAY, level.at_least(1)));
        if is_polled {
            assert_pending!(watch.poll());
        }
        assert_eq!(level.tries(), 2);
        end(runtime, &wheel);
        assert_eq!((watch.is_woken(), purgatory.delayed()), (is_polled, 0));
        assert!(is_shutdown(assert_ready!(watch.poll()).unwrap_err()));
        assert_eq!((counts(&purgatory), level.conditions(), level.tries()), ((0, 0), 0, 0));
    }
}

/// The entry of the last operation stays in the wheel for a while, with the operation as its waker.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_wheel_ends_with_its_handles_though_an_operation_was_the_last_to_use_it() {
    let used = tokio::spawn(async {
        let (wheel, key) = (TimingWheel::new(), std::sync::Arc::new("key"));
        let purgatory = Purgatory::new(&wheel);
        let mut watch = spawn(purgatory.watch([key.clone()], DAY, never));
        assert_pending!(watch.poll());
        drop(watch);
        (wheel, key)
    });
    let (wheel, key) = used.await.unwrap();
    assert_eq!(wheel.pending(), 0);
    drop(wheel);
    let metrics = tokio::runtime::Handle::current().metrics();
    let start = std::time::Instant::now();
    while metrics.num_alive_tasks() > 0 || std::sync::Arc::strong_count(&key) > 1 {
        assert!(start.elapsed() < ms(30_000), "{} tasks, {key:?}", metrics.num_alive_tasks());
        tokio::time::sleep(ms(10)).await;
    }
}

#[test]
fn errors_say_what_they_are() {
    let shutdown = timingwheel::Error::shutdown();
    let refused = format!("the operation could not be watched: {shutdown}");
    for (error, text, kind) in [
        (WatchError::Expired, "the operation was not complete when its deadline came", ErrorKind::TimedOut),
        (WatchError::Cancelled, "the operation was cancelled before it was complete", ErrorKind::Other),
        (WatchError::CouldNotRun(shutdown), &refused, ErrorKind::Other),
    ] {
        assert_eq!(error.to_string(), text);
        let io = io::Error::from(error);
        assert_eq!((io.kind(), io.to_string().as_str()), (kind, text));
        assert_eq!(error.source().is_some(), error == WatchError::CouldNotRun(shutdown));
    }
}

#[tokio::test(start_paused = true)]
#[should_panic = "a `Watch` was polled after it was ready"]
async fn a_future_that_was_ready_must_not_be_polled() {
    let mut watch = purgatory::<u8>().watch([], DAY, || Some(1));
    assert_eq!((&mut watch).await, Ok(1));
    let _ = watch.await;
}
