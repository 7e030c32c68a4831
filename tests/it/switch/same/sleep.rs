//! `sleep`, `sleep_until`, `Sleep`.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;

use tokio::sync::oneshot;
use tokio::task::{JoinSet, coop, yield_now};
use tokio_test::task;

use super::time::{Duration, Instant, Sleep, advance, sleep, sleep_until};
use crate::ms;
use crate::switch::trace::Trace;

const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

pub(crate) async fn a_sleep_ends_at_its_deadline_however_long_it_is(trace: Trace) {
    for millis in [0, 1, 2, 5, 63, 64, 65, 999, 4_095, 4_096, 4_097, 262_143, 262_145, 86_400_000, 1 << 36] {
        sleep(ms(millis)).await;
        trace.note(millis);
    }
}

pub(crate) async fn a_sleep_is_at_most_thirty_years_long(trace: Trace) {
    for longest in [YEAR * 29, YEAR * 31, YEAR * 1_000, Duration::MAX] {
        let sleep = sleep(longest);
        trace.note_instant("deadline", sleep.deadline());
    }
    sleep(Duration::MAX).await;
    trace.note("thirty years later");
}

pub(crate) async fn a_deadline_may_be_further_than_that(trace: Trace) {
    let deadline = Instant::now() + YEAR * 100;
    sleep_until(deadline).await;
    trace.note("a hundred years later");
}

pub(crate) async fn the_deadline_is_fixed_when_a_sleep_is_made(trace: Trace) {
    let late = sleep(ms(100));
    trace.note_instant("deadline", late.deadline());
    advance(ms(30)).await;
    trace.note_instant("deadline", late.deadline());
    late.await;
    trace.note("awaited");
    let passed = sleep(ms(10));
    advance(ms(70)).await;
    passed.await;
    trace.note("awaited after its deadline");
}

pub(crate) async fn a_deadline_in_the_past_is_ready_at_the_first_poll(trace: Trace) {
    advance(ms(5_000)).await;
    for ago in [0, 1, 5, 4_999, 5_000] {
        let mut sleep = task::spawn(Box::pin(sleep_until(Instant::now() - ms(ago))));
        trace.note_instant("deadline", sleep.deadline());
        trace.note(sleep.poll().is_ready());
    }
    let mut before_the_runtime = task::spawn(Box::pin(sleep_until(Instant::now() - ms(3_600_000))));
    trace.note(before_the_runtime.poll().is_ready());
}

pub(crate) async fn polled_by_hand_it_is_pending_until_the_clock_has_reached_its_deadline(trace: Trace) {
    for millis in [1, 64, 100, 5_000] {
        let mut sleep = task::spawn(Box::pin(sleep(ms(millis))));
        trace.note(sleep.poll().is_pending());
        advance(ms(millis - 1)).await;
        trace.note(format_args!("{} {}", sleep.is_woken(), sleep.poll().is_pending()));
        advance(ms(1)).await;
        trace.note(format_args!("{} {}", sleep.is_woken(), sleep.poll().is_ready()));
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

pub(crate) async fn polled_after_it_was_ready_it_is_ready_again(trace: Trace) {
    let mut sleep = task::spawn(Box::pin(sleep(ms(3))));
    sleep.as_mut().await;
    for _ in 0..3 {
        trace.note(format_args!("{:?} {}", sleep.poll(), sleep.is_elapsed()));
    }
}

pub(crate) async fn only_the_task_that_polled_last_is_woken(trace: Trace) {
    let mut sleep: Pin<Box<Sleep>> = Box::pin(sleep(ms(10)));
    let (mut first, mut last) = (task::spawn(()), task::spawn(()));
    first.enter(|cx, _| trace.note(sleep.as_mut().poll(cx).is_pending()));
    last.enter(|cx, _| trace.note(sleep.as_mut().poll(cx).is_pending()));
    advance(ms(10)).await;
    trace.note(format_args!("{} {}", first.is_woken(), last.is_woken()));
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

pub(crate) async fn a_task_that_finds_all_its_sleeps_elapsed_lets_others_run(trace: Trace) {
    let busy = trace.clone();
    let busy = tokio::spawn(async move {
        for round in 0..300 {
            sleep(Duration::ZERO).await;
            if round % 50 == 0 {
                busy.note(format_args!("busy {round}"));
            }
        }
    });
    let other = trace.clone();
    let other = tokio::spawn(async move {
        for round in 0..3 {
            yield_now().await;
            other.note(format_args!("other {round}"));
        }
    });
    busy.await.expect("no panic");
    other.await.expect("no panic");
}

pub(crate) async fn tasks_wake_in_the_order_of_their_deadlines(trace: Trace) {
    let mut tasks = JoinSet::new();
    for number in 0..200_u64 {
        let trace = trace.clone();
        tasks.spawn(async move {
            // Each task has instants of its own: those with the same remainder.
            sleep(ms(number)).await;
            for round in 1..4 {
                sleep(ms(256 * round * (number * 89 % 211))).await;
                trace.note(number);
            }
        });
    }
    tasks.join_all().await;
}

pub(crate) async fn tasks_with_the_same_deadline_wake_in_the_order_in_which_they_went_to_sleep(trace: Trace) {
    for millis in [1, 64, 70, 5_000, 300_000] {
        let mut tasks = JoinSet::new();
        for number in 0..20 {
            let trace = trace.clone();
            tasks.spawn(async move {
                sleep(ms(millis)).await;
                trace.note(number);
            });
        }
        tasks.join_all().await;
    }
}

pub(crate) async fn a_sleep_that_is_dropped_does_not_hold_the_clock(trace: Trace) {
    let mut dropped = task::spawn(Box::pin(sleep(ms(10))));
    let _ = dropped.poll();
    let mut kept = task::spawn(Box::pin(sleep(ms(20))));
    let _ = kept.poll();
    drop(dropped);
    kept.await;
    trace.note("the one that was kept");
}

pub(crate) async fn it_moves_between_tasks(trace: Trace) {
    let mut boxed = Box::pin(sleep(ms(50)));
    let note = trace.clone();
    let (give, given) = oneshot::channel();
    let first = tokio::spawn(async move {
        tokio::select! {
            biased;
            () = &mut boxed => note.note("too early"),
            () = sleep(ms(20)) => note.note("the first task gives it away"),
        }
        give.send(boxed).expect("somebody waits for it");
    });
    given.await.expect("given away").await;
    trace.note("the second task awaits it");
    first.await.expect("no panic");
}
