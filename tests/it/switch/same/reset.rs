//! `Sleep::reset`.

use std::pin::pin;

use tokio::sync::mpsc;
use tokio_test::task;

use super::time::{Duration, Instant, Sleep, advance, sleep, timeout};
use crate::ms;
use crate::switch::trace::Trace;

pub(crate) async fn a_sleep_moved_while_it_waits_ends_at_its_new_deadline(trace: Trace) {
    for (from, to) in [(10, 100), (100, 10), (5_000, 70), (70, 5_000), (64, 63), (63, 64), (50, 50)] {
        let start = Instant::now();
        let mut moved = pin!(sleep(ms(from)));
        let _ = timeout(ms(5), &mut moved).await;
        moved.as_mut().reset(start + ms(to));
        trace.note_instant("deadline", moved.deadline());
        moved.as_mut().await;
        trace.note(moved.is_elapsed());
    }
}

pub(crate) async fn a_sleep_moved_before_its_first_poll_ends_at_its_new_deadline(trace: Trace) {
    for to in [0, 5, 50, 500] {
        let start = Instant::now();
        let mut moved = pin!(sleep(ms(50)));
        moved.as_mut().reset(start + ms(to));
        moved.await;
        trace.note(to);
    }
}

pub(crate) async fn a_sleep_moved_after_it_has_ended_waits_again(trace: Trace) {
    let mut moved = pin!(sleep(ms(10)));
    for _ in 0..5 {
        moved.as_mut().await;
        trace.note(moved.is_elapsed());
        moved.as_mut().reset(Instant::now() + ms(70));
        trace.note(moved.is_elapsed());
    }
    moved.as_mut().reset(Instant::now());
    moved.await;
    trace.note("now");
}

pub(crate) async fn a_sleep_moved_after_its_time_and_before_it_was_polled_waits_again(trace: Trace) {
    let mut moved = task::spawn(Box::pin(sleep(ms(10))));
    trace.note(moved.poll().is_pending());
    advance(ms(20)).await;
    trace.note(format_args!("{} {}", moved.is_woken(), moved.is_elapsed()));
    moved.as_mut().reset(Instant::now() + ms(10));
    trace.note(format_args!("{} {}", moved.is_elapsed(), moved.poll().is_pending()));
    advance(ms(10)).await;
    trace.note(format_args!("{} {}", moved.is_elapsed(), moved.poll().is_ready()));
}

pub(crate) async fn a_sleep_moved_into_the_past_wakes_its_task_at_once(trace: Trace) {
    advance(ms(1_000)).await;
    for ago in [0, 1, 500] {
        let mut moved = task::spawn(Box::pin(sleep(ms(10_000))));
        trace.note(moved.poll().is_pending());
        moved.as_mut().reset(Instant::now() - ms(ago));
        trace.note(format_args!("{} {}", moved.is_woken(), moved.poll().is_ready()));
    }
}

pub(crate) async fn the_task_that_waits_is_woken_at_the_new_deadline_without_polling_again(trace: Trace) {
    for (from, to) in [(100, 40), (100, 160), (5_000, 10), (10, 5_000)] {
        let mut moved = task::spawn(Box::pin(sleep(ms(from))));
        trace.note(moved.poll().is_pending());
        moved.as_mut().reset(Instant::now() + ms(to));
        advance(ms(to - 1)).await;
        trace.note(moved.is_woken());
        advance(ms(1)).await;
        trace.note(moved.is_woken());
    }
}

pub(crate) async fn a_deadline_moved_for_each_message_of_a_connection_ends_it_after_the_last(trace: Trace) {
    const IDLE: Duration = ms(1_000);
    let (sender, mut messages) = mpsc::channel(1);
    let peer = tokio::spawn(async move {
        for gap in [10, 999, 500, 1, 64, 998, 5_000] {
            sleep(ms(gap)).await;
            if sender.send(gap).await.is_err() {
                break;
            }
        }
    });
    let mut idle = pin!(sleep(IDLE));
    loop {
        tokio::select! {
            biased;
            Some(gap) = messages.recv() => {
                trace.note(format_args!("a message after {gap}"));
                idle.as_mut().reset(Instant::now() + IDLE);
            }
            () = &mut idle => break trace.note("idle"),
        }
    }
    drop(messages);
    peer.await.expect("no panic");
    trace.note("the peer has noticed");
}

pub(crate) async fn many_sleeps_moved_here_and_there_end_in_the_order_of_their_deadlines(trace: Trace) {
    let start = Instant::now();
    let mut sleeps: Vec<_> = (0..100).map(|_| Box::pin(sleep(ms(500)))).collect();
    for sleep in &mut sleeps {
        assert!(timeout(Duration::ZERO, sleep.as_mut()).await.is_err());
    }
    for (number, sleep) in (1..).zip(&mut sleeps) {
        let place = number * 37 % 101;
        Sleep::reset(sleep.as_mut(), start + ms(place * 11));
    }
    let tasks = sleeps.into_iter().enumerate().map(|(number, sleep)| {
        let trace = trace.clone();
        tokio::spawn(async move {
            sleep.await;
            trace.note(number);
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.expect("no panic");
    }
}
