//! What random scripts cannot express: polls by hand, the budget, the longest times, errors, the clock that is moved.

use std::error::Error;
use std::future::{pending, poll_fn};
use std::io;
use std::pin::pin;
use std::task::Poll;

use tokio::task::{JoinSet, coop, yield_now};
use tokio_test::task;

use super::time::{self, Duration, Instant, Interval, advance, interval, interval_at, sleep, timeout};
use crate::ms;
use crate::switch::trace::Trace;

const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

pub(crate) async fn the_longest_sleep_and_period_are_thirty_years_and_the_longest_timeout_does_not_elapse(
    trace: Trace,
) {
    for longest in [YEAR * 29, YEAR * 31, YEAR * 1_000, Duration::MAX] {
        trace.note_instant("deadline", sleep(longest).deadline());
    }
    trace.note(timeout(Duration::MAX, sleep(Duration::MAX)).await.is_ok());
    trace.note(timeout(YEAR * 50, pending::<()>()).await.is_err());
    let mut reset = interval(ms(100));
    reset.reset_after(Duration::MAX);
    for mut longest in [interval(Duration::MAX), interval_at(Instant::now(), Duration::MAX), reset] {
        trace.note(format_args!("{:?}", longest.period()));
        note_ticks(&trace, &mut longest, 2).await;
    }
}

pub(crate) async fn it_has_elapsed_when_it_was_polled_and_its_time_has_come(trace: Trace) {
    let never_polled = sleep(ms(10));
    let mut polled = task::spawn(Box::pin(sleep(ms(10))));
    let _ = polled.poll();
    for _ in 0..3 {
        advance(ms(5)).await;
        trace.note(format_args!("{} {}", never_polled.is_elapsed(), polled.is_elapsed()));
    }
    trace.note(format_args!("{:?} {}", polled.poll(), polled.is_elapsed()));
    let mut never_polled = task::spawn(Box::pin(never_polled));
    trace.note(format_args!("{:?} {}", never_polled.poll(), never_polled.is_elapsed()));
}

pub(crate) async fn as_many_are_ready_in_a_row_as_the_budget_allows(trace: Trace) {
    for _ in 0..3 {
        let mut ready = 0;
        poll_fn(|cx| {
            while pin!(sleep(Duration::ZERO)).as_mut().poll(cx).is_ready() {
                ready += 1;
            }
            Poll::Ready(())
        })
        .await;
        trace.note(format_args!("{ready} in a row, and more is left: {}", coop::has_budget_remaining()));
        yield_now().await;
    }
}

pub(crate) async fn a_pending_one_spends_no_budget(trace: Trace) {
    let mut pending = Box::pin(sleep(ms(1_000)));
    poll_fn(|cx| {
        for _ in 0..1_000 {
            if pending.as_mut().poll(cx).is_ready() {
                trace.note("ready");
            }
        }
        trace.note(coop::has_budget_remaining());
        Poll::Ready(())
    })
    .await;
    pending.await;
    trace.note("ready");
}

pub(crate) async fn the_error_reads_the_same_and_becomes_the_same_io_error(trace: Trace) {
    let elapsed = timeout(ms(1), pending::<()>()).await.expect_err("never ready");
    trace.note(format_args!("{elapsed}"));
    trace.note(format_args!("[{elapsed:>30}] [{elapsed:<30}] [{elapsed:.8}]"));
    trace.note(elapsed.source().is_none());
    trace.note(elapsed == timeout(ms(2), pending::<()>()).await.expect_err("never ready"));
    let error = io::Error::from(elapsed);
    trace.note(format_args!("{error}, {:?}, {error:?}, {}", error.kind(), error.get_ref().is_none()));
}

pub(crate) async fn polled_after_it_has_elapsed_it_has_elapsed_again(trace: Trace) {
    let mut timed = task::spawn(timeout(ms(10), pending::<()>()));
    trace.note(timed.poll().is_pending());
    advance(ms(10)).await;
    for _ in 0..3 {
        trace.note(format_args!("{} {}", timed.is_woken(), matches!(timed.poll(), Poll::Ready(Err(_)))));
    }
}

pub(crate) async fn as_many_elapse_in_a_row_as_the_budget_allows(trace: Trace) {
    let mut elapsed = 0;
    poll_fn(|cx| {
        while Box::pin(timeout(Duration::ZERO, pending::<()>())).as_mut().poll(cx).is_ready() {
            elapsed += 1;
        }
        Poll::Ready(())
    })
    .await;
    trace.note(elapsed);
}

async fn note_ticks(trace: &Trace, interval: &mut Interval, ticks: usize) {
    for _ in 0..ticks {
        let due = interval.tick().await;
        trace.note_instant("due", due);
    }
}

pub(crate) async fn a_reset_reaches_a_task_that_waits_already(trace: Trace) {
    let mut interval = interval_at(Instant::now() + ms(1_000), ms(100));
    let mut task = task::spawn(());
    trace.note(task.enter(|cx, _| interval.poll_tick(cx)).is_pending());
    interval.reset_after(ms(10));
    advance(ms(9)).await;
    trace.note(task.is_woken());
    advance(ms(1)).await;
    trace.note(task.is_woken());
    trace.note(task.enter(|cx, _| interval.poll_tick(cx)).is_ready());
    trace.note(task.enter(|cx, _| interval.poll_tick(cx)).is_pending());
    interval.reset_immediately();
    trace.note(format_args!("{} {}", task.is_woken(), task.enter(|cx, _| interval.poll_tick(cx)).is_ready()));
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
