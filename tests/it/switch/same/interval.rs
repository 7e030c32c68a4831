//! `interval`, `interval_at`, `Interval`.

use std::pin::pin;

use tokio_test::task;

use super::time::{Duration, Instant, Interval, advance, interval, interval_at, sleep, timeout};
use crate::ms;
use crate::switch::trace::Trace;

async fn note_ticks(trace: &Trace, interval: &mut Interval, ticks: usize) {
    for _ in 0..ticks {
        let due = interval.tick().await;
        trace.note_instant("due", due);
    }
}

pub(crate) async fn the_first_tick_comes_at_once_and_the_others_a_period_apart(trace: Trace) {
    for period in [1, 5, 64, 1_000, 100_000] {
        note_ticks(&trace, &mut interval(ms(period)), 5).await;
    }
}

pub(crate) async fn the_first_tick_comes_at_the_start_that_was_asked_for(trace: Trace) {
    for start in [0, 1, 70, 5_000] {
        note_ticks(&trace, &mut interval_at(Instant::now() + ms(start), ms(30)), 3).await;
    }
}

pub(crate) async fn a_start_in_the_past_counts_as_missed_ticks(trace: Trace) {
    advance(ms(1_000)).await;
    for ago in [3, 5, 6, 95, 100, 350] {
        note_ticks(&trace, &mut interval_at(Instant::now() - ms(ago), ms(100)), 6).await;
    }
}

pub(crate) async fn a_period_is_at_most_thirty_years_long(trace: Trace) {
    for mut longest in [interval(Duration::MAX), interval_at(Instant::now(), Duration::MAX)] {
        trace.note(format_args!("{:?}", longest.period()));
        note_ticks(&trace, &mut longest, 2).await;
    }
}

pub(crate) async fn work_that_is_shorter_than_the_period_does_not_shift_the_schedule(trace: Trace) {
    let mut interval = interval(ms(100));
    for work in [0, 99, 1, 50, 100, 3, 104] {
        note_ticks(&trace, &mut interval, 1).await;
        sleep(ms(work)).await;
    }
}

pub(crate) async fn a_tick_that_is_given_up_is_not_lost(trace: Trace) {
    let mut interval = interval(ms(100));
    let mut ticks = 0;
    while ticks < 4 {
        tokio::select! {
            biased;
            due = interval.tick() => {
                ticks += 1;
                trace.note_instant("due", due);
            }
            () = sleep(ms(30)) => trace.note("given up"),
        }
    }
}

pub(crate) async fn polled_by_hand_it_ticks_when_the_clock_has_reached_the_tick(trace: Trace) {
    let mut interval = interval_at(Instant::now() + ms(10), ms(20));
    let mut task = task::spawn(());
    for step in [9, 1, 19, 1, 20, 45, 0, 0, 14, 1] {
        advance(ms(step)).await;
        let tick = task.enter(|cx, _| interval.poll_tick(cx));
        trace.note(format_args!("{} {}", task.is_woken(), tick.is_ready()));
        if let std::task::Poll::Ready(due) = tick {
            trace.note_instant("due", due);
        }
    }
}

pub(crate) async fn each_reset_moves_the_next_tick_and_the_schedule_after_it(trace: Trace) {
    let mut interval = interval(ms(100));
    note_ticks(&trace, &mut interval, 2).await;
    advance(ms(30)).await;
    interval.reset();
    note_ticks(&trace, &mut interval, 2).await;
    advance(ms(30)).await;
    interval.reset_immediately();
    note_ticks(&trace, &mut interval, 2).await;
    interval.reset_after(ms(1_234));
    note_ticks(&trace, &mut interval, 2).await;
    for at in [0, 7, 64, 5_000] {
        interval.reset_at(Instant::now() + ms(at));
        note_ticks(&trace, &mut interval, 2).await;
    }
    interval.reset_at(Instant::now() - ms(250));
    note_ticks(&trace, &mut interval, 4).await;
}

pub(crate) async fn a_reset_after_the_longest_time_is_thirty_years(trace: Trace) {
    let mut interval = interval(ms(100));
    interval.reset_after(Duration::MAX);
    note_ticks(&trace, &mut interval, 2).await;
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

pub(crate) async fn a_reset_counts_nothing_as_missed(trace: Trace) {
    let mut interval = interval(ms(100));
    note_ticks(&trace, &mut interval, 1).await;
    advance(ms(1_050)).await;
    interval.reset();
    note_ticks(&trace, &mut interval, 3).await;
}

pub(crate) async fn intervals_in_a_select_take_turns(trace: Trace) {
    let (mut fast, mut slow) = (interval(ms(30)), interval(ms(50)));
    let mut end = pin!(sleep(ms(400)));
    loop {
        tokio::select! {
            biased;
            () = &mut end => break trace.note("the end"),
            due = slow.tick() => trace.note_instant("slow", due),
            due = fast.tick() => trace.note_instant("fast", due),
        }
    }
}

pub(crate) async fn a_tick_can_be_timed(trace: Trace) {
    let mut interval = interval(ms(100));
    for limit in [0, 99, 1, 50, 50, 200] {
        match timeout(ms(limit), interval.tick()).await {
            Ok(due) => trace.note_instant("due", due),
            Err(elapsed) => trace.note(elapsed),
        }
    }
}
