//! Handlers that are called together do not stand in each other's way.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use timingwheel_durable::store::{NewTimer, Store};
use timingwheel_durable::{Answer, Backoff, Durable, HandlerResult, Kind, Run, TimerId};
use tokio::task::block_in_place;

use super::support::{Rig, at, secs};

#[derive(Serialize, Deserialize)]
struct Part {
    number: usize,
}

impl Kind for Part {
    const KIND: &'static str = "part";
}

/// How long anything is waited for.
const GUARD: Duration = Duration::from_secs(60);

/// Blocks the thread. Tells whether it came true.
fn blocks_until(is_so: impl Fn() -> bool) -> bool {
    let begin = Instant::now();
    while !is_so() && begin.elapsed() < GUARD {
        thread::sleep(Duration::from_millis(1));
    }
    is_so()
}

async fn until(is_so: impl Fn() -> bool) -> bool {
    let begin = Instant::now();
    while !is_so() && begin.elapsed() < GUARD {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    is_so()
}

/// So many that are due when they are loaded: they begin in one call.
async fn started<F>(rig: &Rig, count: usize, handler: impl Fn(usize) -> F + Send + Sync + 'static) -> Durable
where
    F: Future<Output = HandlerResult> + Send + 'static,
{
    let timers = (0..count).map(|number| {
        NewTimer::new(TimerId::new(at(-1.0), number as u64), Part::KIND, format!("{{\"number\":{number}}}"))
    });
    rig.store.save(timers.collect()).await.unwrap();
    let builder = rig.builder().on(move |Part { number }, _: Run| handler(number));
    builder.retry::<Part>(Backoff::fixed(secs(10)).jitter(0.0)).start().await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_handler_that_blocks_its_thread_keeps_nothing_back_of_those_called_with_it() {
    for blocked in [0, 1, 7, 50, 399] {
        let (rig, is_free) = (Rig::new(), Arc::new(AtomicBool::new(false)));
        let waits = Arc::clone(&is_free);
        let durable = started(&rig, 400, move |number| {
            if number == blocked {
                blocks_until(|| waits.load(Ordering::Relaxed));
            }
            async { Ok(Answer::Done) }
        })
        .await;
        let are_done = until(|| durable.stats().done == 399).await;
        is_free.store(true, Ordering::Relaxed);
        assert!(are_done, "{} of 399 are done beside {blocked}", durable.stats().done);
        assert!(until(|| durable.stats().done == 400).await);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handlers_in_block_in_place_may_wait_for_all_others_that_are_called_with_them() {
    let (rig, count) = (Rig::new(), Arc::new(AtomicUsize::new(0)));
    let durable = started(&rig, 12, move |_| {
        count.fetch_add(1, Ordering::Relaxed);
        let all_came = block_in_place(|| blocks_until(|| count.load(Ordering::Relaxed) == 12));
        async move { if all_came { Ok(Answer::Done) } else { Err("too few came".into()) } }
    })
    .await;
    assert!(until(|| durable.stats().done == 12).await, "{:?}", durable.stats().retried);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handlers_that_wait_keep_nothing_back_also_where_a_thread_is_blocked() {
    for blocked in 0..12 {
        let (rig, came) = (Rig::new(), Arc::new(AtomicUsize::new(0)));
        let durable = started(&rig, 300, move |number| {
            came.fetch_add(1, Ordering::Relaxed);
            let all_came = number != blocked || blocks_until(|| came.load(Ordering::Relaxed) == 300);
            let came = Arc::clone(&came);
            async move {
                let all_came = all_came && until(|| came.load(Ordering::Relaxed) == 300).await;
                if all_came { Ok(Answer::Done) } else { Err("too few came".into()) }
            }
        })
        .await;
        assert!(until(|| durable.stats().attempts == 300).await);
        assert!(until(|| durable.stats().done == 300).await, "{:?}", durable.stats());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_blocks_its_thread_beyond_the_limit_of_a_stop_is_dropped_as_soon_as_it_waits() {
    let (rig, is_free, called) = (Rig::new(), Arc::new(AtomicBool::new(false)), Arc::new(()));
    let (waits, guard) = (Arc::clone(&is_free), Arc::clone(&called));
    let durable = started(&rig, 1, move |_| {
        let guard = Arc::clone(&guard);
        blocks_until(|| waits.load(Ordering::Relaxed));
        async move {
            std::future::pending::<()>().await;
            drop(guard);
            Ok(Answer::Done)
        }
    })
    .await;
    assert!(until(|| Arc::strong_count(&called) == 3).await, "it was not called");
    let stopped = durable.stop(Duration::from_millis(10)).await;
    assert_eq!((stopped.finished, stopped.aborted, stopped.left_running), (0, 0, 1));
    is_free.store(true, Ordering::Relaxed);
    assert!(until(|| Arc::strong_count(&called) < 3).await, "it still waits");
}

#[tokio::test(start_paused = true)]
async fn handlers_that_are_ready_at_once_or_not_or_panic_at_either_all_end_once() {
    let rig = Rig::new();
    let durable = started(&rig, 1_000, move |number| {
        assert!(number % 5 != 1, "before its future");
        async move {
            assert!(number % 5 != 2, "at its first poll");
            if number % 5 > 2 {
                tokio::time::sleep(secs(1)).await;
            }
            assert!(number % 5 != 3, "after it has waited");
            Ok(Answer::Done)
        }
    })
    .await;
    rig.sleep(0.5).await;
    let stats = durable.stats();
    assert_eq!((stats.attempts, stats.done, stats.panicked), (1_000, 200, 400));
    rig.sleep(0.6).await;
    let stats = durable.stats();
    assert_eq!((stats.done, stats.panicked, stats.retried), (400, 600, 600));
}

#[tokio::test(start_paused = true)]
async fn a_stop_at_its_limit_drops_handlers_that_have_waited_since_their_first_poll() {
    let rig = Rig::new();
    let durable = started(&rig, 300, move |number| async move {
        // Some longer than the limit.
        tokio::time::sleep(secs(if number < 100 { 1 } else { 100 })).await;
        Ok(Answer::Done)
    })
    .await;
    rig.sleep(0.5).await;
    let stopped = durable.stop(secs(5)).await;
    assert_eq!((stopped.finished, stopped.aborted, stopped.left_running), (100, 200, 0));
    assert_eq!(durable.count().await.unwrap().stored, 200);
}
