//! When calls panic, and which place the panic names. Both name the caller, so files and lines are the same.

use std::future::pending;

use tokio::runtime::Builder;
use tokio_test::task;

use super::time::{
    Duration, Instant, MissedTickBehavior, interval, interval_at, pause, resume, sleep, sleep_until, timeout,
    timeout_at,
};
use crate::panic_place::panic_place;
use crate::switch::trace::Trace;
use crate::{SECOND, elsewhere, paused};

fn note_panics_of_all_functions(trace: &Trace) {
    let now = Instant::now();
    trace.note(format_args!("sleep: {}", panics(|| task::spawn(async { sleep(SECOND).await }).poll())));
    trace.note(format_args!(
        "sleep_until: {}",
        panics(|| task::spawn(async { sleep_until(now).await }).poll())
    ));
    trace.note(format_args!("timeout: {}", panics(|| task::spawn(timeout(SECOND, pending::<()>())).poll())));
    trace.note(format_args!(
        "timeout_at: {}",
        panics(|| task::spawn(timeout_at(now, pending::<()>())).poll())
    ));
    // The place that tokio's names is in its own sources.
    trace.note(format_args!("interval: {}", panics(|| interval(SECOND))));
    trace.note(format_args!("interval_at: {}", panics(|| interval_at(now, SECOND))));
}

pub(crate) async fn outside_a_runtime_each_function_panics_or_its_future_does(trace: Trace) {
    elsewhere(|| note_panics_of_all_functions(&trace));
}

/// With tokio, where it is made.
pub(crate) async fn in_a_runtime_without_timers_none_can_be_awaited(trace: Trace) {
    elsewhere(|| {
        let runtime = Builder::new_current_thread().build().expect("a runtime");
        let awaited = panics(|| runtime.block_on(async { sleep(SECOND).await }));
        trace.note(awaited);
    });
}

pub(crate) async fn a_period_of_zero_panics_in_its_callers_line(trace: Trace) {
    trace.note(format_args!("{:?}", panic_place(|| interval(Duration::ZERO))));
    trace.note(format_args!("{:?}", panic_place(|| interval_at(Instant::now(), Duration::ZERO))));
    // Even where there is no runtime, it is the period that is complained about, in the same line.
    elsewhere(|| trace.note(format_args!("{:?}", panic_place(|| interval(Duration::ZERO)))));
}

fn panics<T>(f: impl FnOnce() -> T) -> bool {
    panic_place(f).is_some()
}

pub(crate) async fn a_clock_is_paused_once_and_resumed_once(trace: Trace) {
    elsewhere(|| {
        paused().block_on(async {
            trace.note(panics(pause));
            resume();
            trace.note(panics(resume));
        });
    });
}

pub(crate) async fn the_end_of_the_runtime_wakes_sleeps_and_panics_in_their_next_poll(trace: Trace) {
    elsewhere(|| {
        let runtime = paused();
        let (mut polled, mut unpolled) = runtime.block_on(async {
            let mut polled = task::spawn(sleep(SECOND));
            trace.note(polled.poll().is_pending());
            (polled, task::spawn(sleep(SECOND)))
        });
        drop(runtime);
        trace.note(format_args!("{} {}", polled.is_woken(), unpolled.is_woken()));
        trace.note(panics(|| polled.poll()));
        trace.note(panics(|| unpolled.poll()));
    });
}

pub(crate) async fn the_end_of_the_runtime_panics_in_the_next_tick(trace: Trace) {
    elsewhere(|| {
        let runtime = paused();
        let mut interval = runtime.block_on(async {
            let mut interval = interval(SECOND);
            interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
            interval.tick().await;
            interval
        });
        drop(runtime);
        trace.note(panics(|| task::spawn(()).enter(|cx, _| interval.poll_tick(cx))));
    });
}
