//! `Instant`, `pause`, `resume`, `advance`, and the clock that moves by itself when nothing else does.

use std::thread;

use tokio::sync::oneshot;
use tokio::task::{JoinSet, spawn_blocking, yield_now};
use tokio_test::task;

use super::time::{self, Duration, Instant, advance, interval, sleep, timeout};
use crate::ms;
use crate::switch::trace::Trace;

pub(crate) async fn an_idle_runtime_jumps_from_timer_to_timer(trace: Trace) {
    let mut tasks = JoinSet::new();
    for millis in [3_600_000, 1, 70, 5_000] {
        let trace = trace.clone();
        tasks.spawn(async move {
            sleep(ms(millis)).await;
            trace.note(millis);
        });
    }
    tasks.join_all().await;
}

pub(crate) async fn an_advance_fires_what_it_passes_in_order(trace: Trace) {
    let mut tasks = JoinSet::new();
    for millis in [30, 10, 50, 20, 65, 5_000, 63, 70, 1_000, 64, 9_999, 20_000] {
        let trace = trace.clone();
        tasks.spawn(async move {
            sleep(ms(millis)).await;
            trace.note(millis);
            sleep(ms(millis)).await;
            trace.note(format_args!("{millis} again"));
        });
    }
    yield_now().await;
    for step in [0, 10, 54, 9_000, 30_000] {
        advance(ms(step)).await;
        trace.note(format_args!("advanced by {step}"));
        // So that nobody is overdue when the clock moves on.
        for _ in 0..3 {
            yield_now().await;
        }
    }
    tasks.join_all().await;
}

pub(crate) async fn a_timer_that_was_polled_just_before_an_advance_is_passed_by_it(trace: Trace) {
    for millis in [1, 70, 5_000] {
        let mut sleep = task::spawn(sleep(ms(millis)));
        let mut timed = task::spawn(timeout(ms(millis), std::future::pending::<()>()));
        trace.note(format_args!("{} {}", sleep.poll().is_pending(), timed.poll().is_pending()));
        advance(ms(millis)).await;
        trace.note(format_args!("{} {}", sleep.poll().is_ready(), timed.poll().is_ready()));
    }
}

pub(crate) async fn a_blocking_task_holds_the_clock(trace: Trace) {
    let blocking = spawn_blocking(|| thread::sleep(ms(20)));
    let mut second = task::spawn(sleep(ms(1_000)));
    trace.note(second.poll().is_pending());
    blocking.await.expect("no panic");
    trace.note(second.is_woken());
    second.await;
    trace.note("then it goes on");
}

pub(crate) async fn with_no_timer_left_the_clock_stands(trace: Trace) {
    let (tell, told) = oneshot::channel();
    trace.note(timeout(ms(100), async {}).await.is_ok());
    drop(sleep(ms(50)));
    thread::spawn(move || {
        thread::sleep(ms(20));
        tell.send(()).expect("still waiting");
    });
    told.await.expect("told");
    trace.note("told in real time");
}

pub(crate) async fn a_resumed_clock_goes_on_and_can_be_paused_again(trace: Trace) {
    sleep(ms(1_000)).await;
    trace.note("paused");
    time::resume();
    let real = std::time::Instant::now();
    sleep(ms(20)).await;
    let waited = real.elapsed();
    time::pause();
    // The trace holds no real times, as they are never the same.
    assert!(waited >= ms(20), "{waited:?}");
    let start = Instant::now();
    let mut ticks = interval(ms(500));
    for _ in 0..3 {
        ticks.tick().await;
    }
    // A clock that was paused at no whole millisecond is where only tokio's timers round.
    assert!((ms(1_000)..ms(1_002)).contains(&start.elapsed()), "{:?}", start.elapsed());
}

pub(crate) async fn instants_and_durations_are_the_same(trace: Trace) {
    let start = Instant::now();
    advance(ms(1_500)).await;
    let now = Instant::now();
    trace.note(format_args!("{:?} {:?}", now - start, start.elapsed()));
    trace.note(format_args!("{:?} {:?}", start - now, start.saturating_duration_since(now)));
    trace.note(format_args!("{:?} {:?}", start.checked_duration_since(now), now.duration_since(start)));
    trace.note(format_args!("{} {}", start + ms(1_500) == now, Instant::from_std(now.into_std()) == now));
    trace.note(now.checked_add(Duration::MAX).is_none());
    trace.note(now.checked_sub(ms(1_500)) == Some(start));
    let mut moved = start;
    moved += ms(2_000);
    moved -= ms(500);
    trace.note(format_args!("{} {:?}", moved == now, start < now));
}
