//! How a deadline ends.

use std::future::{pending, poll_fn, ready};
use std::io;
use std::task::Poll;
use std::time::Duration;

use timingwheel::TimingWheel;
use timingwheel_deadline::{Deadline, DeadlineExt, Ended};
use tokio::task::coop;
use tokio::time::{Instant, advance, sleep};

use crate::{ended, ms, pending_once};

#[tokio::test(start_paused = true)]
async fn a_ready_future_arms_nothing_and_comes_before_the_end() {
    let wheel = TimingWheel::new();
    let deadline = wheel.deadline_in(ms(1));
    deadline.cancel();
    assert_eq!(deadline.run(ready(7)).await, Ok(7));
    assert_eq!(deadline.run_within(ms(0), ready(7)).await, Ok(7));
    assert_eq!(wheel.stats().armed, 0);
}

#[tokio::test(start_paused = true)]
async fn an_error_says_whose_limit_it_was() {
    let start = Instant::now();
    let request = TimingWheel::new().deadline_in(ms(50));
    assert_eq!(request.run_within(ms(20), pending::<()>()).await, Err(Ended::Limit));
    assert_eq!(start.elapsed(), ms(20));
    assert!(!request.has_ended());
    assert_eq!(request.run_within(ms(80), pending::<()>()).await, Err(Ended::Passed));
    assert_eq!((start.elapsed(), request.end()), (ms(50), Some(Ended::Passed)));
    // Both at the same time: nothing more can be done for the request.
    let request = TimingWheel::new().deadline_in(ms(50));
    assert_eq!(request.run_within(ms(50), pending::<()>()).await, Err(Ended::Passed));
}

/// A task that is busy finds both times up. A retry would be in vain.
#[tokio::test(start_paused = true)]
async fn a_request_whose_time_is_up_counts_before_the_limit_of_its_call() {
    let busy_for = async |is_asked: bool| {
        let request = TimingWheel::new().deadline_in(ms(50));
        let mut call = pending_once(Box::pin(request.run_within(ms(20), async move {
            let _asked = is_asked.then(Deadline::current);
            pending::<()>().await;
        })));
        advance(ms(60)).await;
        assert!(call.is_woken());
        call.poll()
    };
    for is_asked in [false, true] {
        assert_eq!(busy_for(is_asked).await, Poll::Ready(Err(Ended::Passed)), "{is_asked}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_parent_by_whose_time_a_child_was_seen_to_end_does_not_end_otherwise() {
    let parent = TimingWheel::new().deadline_in(ms(50));
    let child = parent.child();
    advance(ms(60)).await;
    assert_eq!(child.end(), Some(Ended::Passed));
    parent.token().cancel();
    assert_eq!((parent.end(), parent.child().end()), (Some(Ended::Passed), Some(Ended::Passed)));
}

#[tokio::test(start_paused = true)]
async fn a_deadline_without_an_instant_ends_only_by_a_cancel() {
    let wheel = TimingWheel::new();
    let deadline = wheel.deadline_in(ms(50));
    let waits = ended(&deadline);
    sleep(ms(1)).await;
    assert!(deadline.extend(Duration::MAX));
    assert_eq!((deadline.instant(), deadline.remaining()), (None, None));
    let call = tokio::spawn(deadline.run_within(Duration::MAX, pending::<()>()));
    sleep(Duration::from_secs(1 << 40)).await;
    assert_eq!(wheel.pending(), 0, "nothing to wait for");
    assert!(deadline.extend(ms(1)), "it has no end to move");
    assert!(deadline.cancel());
    assert_eq!((waits.await.unwrap(), call.await.unwrap()), (Ended::Cancelled, Err(Ended::Cancelled)));
}

#[tokio::test(start_paused = true)]
async fn a_cancel_tells_whether_it_ended_the_deadline() {
    let wheel = TimingWheel::new();
    let deadline = wheel.deadline_in(ms(10));
    assert!(deadline.cancel());
    assert!(!deadline.cancel(), "again");
    let child = deadline.child();
    assert!(!child.cancel(), "its parent was cancelled");
    let unseen = wheel.deadline_in(ms(10));
    let child = unseen.child();
    advance(ms(11)).await;
    assert!(!child.cancel() && !unseen.cancel(), "it had passed");
    assert_eq!((child.end(), unseen.end()), (Some(Ended::Passed), Some(Ended::Passed)));
    assert!(unseen.token().is_cancelled(), "all the same, for those that have the token alone");
}

#[tokio::test(start_paused = true)]
async fn extending_moves_the_end_and_wakes_nobody() {
    let start = Instant::now();
    let deadline = TimingWheel::new().deadline_in(ms(50));
    let mut waits = pending_once(deadline.run(pending::<()>()));
    sleep(ms(40)).await;
    assert!(deadline.extend_to(start + ms(100)));
    assert!(deadline.extend(ms(5)), "to no earlier time");
    assert_eq!(deadline.instant(), Some(start + ms(100)));
    assert!(!waits.is_woken());
    sleep(ms(20)).await;
    assert!(waits.is_woken(), "by the timer, which looks again");
    assert!(waits.poll().is_pending());
    assert_eq!(waits.await, Err(Ended::Passed));
    assert_eq!(start.elapsed(), ms(100));
    assert!(!deadline.extend(ms(50)), "it has passed");
    assert_eq!(deadline.run(pending::<()>()).await, Err(Ended::Passed));
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_has_ended_is_not_extended() {
    let wheel = TimingWheel::new();
    let unseen = wheel.deadline_in(ms(5));
    advance(ms(6)).await;
    assert!(!unseen.extend(ms(50)));
    let cancelled = wheel.deadline_in(ms(5));
    cancelled.token().cancel();
    assert!(!cancelled.extend(ms(50)));
    let parent = wheel.deadline_in(ms(5));
    let child = parent.child_in(ms(100));
    advance(ms(6)).await;
    assert!(!child.extend(ms(200)), "its parent has ended");
}

#[tokio::test(start_paused = true)]
async fn the_token_and_the_deadline_are_cancelled_together() {
    let wheel = TimingWheel::new();
    let by_deadline = wheel.deadline_in(ms(1000));
    let token = by_deadline.child().token().clone();
    let hears = tokio::spawn(token.cancelled_owned());
    by_deadline.cancel();
    hears.await.unwrap();

    let by_token = wheel.deadline_in(ms(1000));
    let waits = ended(&by_token.child());
    by_token.token().cancel();
    assert_eq!(waits.await.unwrap(), Ended::Cancelled);
    assert_eq!(by_token.end(), Some(Ended::Cancelled));
}

#[tokio::test(start_paused = true)]
async fn a_drop_guard_ends_the_tasks_of_a_handler_that_is_dropped() {
    let request = TimingWheel::new().deadline_in(ms(1000));
    let part = request.child();
    let task = tokio::spawn(part.run(pending::<()>()));
    let handler = async {
        let _guard = part.drop_guard();
        pending::<()>().await;
    };
    drop(pending_once(Box::pin(handler)));
    assert_eq!(task.await.unwrap(), Err(Ended::Cancelled));
    assert!(!request.has_ended());
}

#[tokio::test(start_paused = true)]
async fn a_future_that_uses_up_the_budget_does_not_escape_its_deadline() {
    let deadline = TimingWheel::new().deadline_in(ms(10));
    sleep(ms(20)).await;
    let mut polls = 0..3;
    let busy = poll_fn(move |cx| match polls.next() {
        Some(_) => loop {
            std::task::ready!(coop::poll_proceed(cx)).made_progress();
        },
        None => Poll::Ready(()),
    });
    assert_eq!(deadline.run(busy).await, Err(Ended::Passed));
}

#[tokio::test(start_paused = true)]
async fn a_loop_under_an_ended_deadline_lets_other_tasks_run() {
    let deadline = TimingWheel::new().deadline_in(ms(10));
    deadline.cancel();
    let other = tokio::spawn(async {});
    while !other.is_finished() {
        assert!(deadline.run(pending::<()>()).await.is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn a_very_long_chain_of_children_can_be_dropped_and_cancelled() {
    let wheel = TimingWheel::new();
    for is_cancelled in [false, true] {
        let root = wheel.deadline_in(ms(10));
        let mut deadline = root.clone();
        for _ in 0..100_000 {
            deadline = deadline.child();
        }
        if is_cancelled {
            root.cancel();
            assert_eq!(deadline.end(), Some(Ended::Cancelled));
        }
        drop(deadline);
    }
}

#[test]
fn errors_say_why_once() {
    for (ended, kind) in [
        (Ended::Passed, io::ErrorKind::TimedOut),
        (Ended::Limit, io::ErrorKind::TimedOut),
        (Ended::Cancelled, io::ErrorKind::ConnectionAborted),
    ] {
        let error = io::Error::from(ended);
        assert_eq!((error.kind(), error.to_string()), (kind, ended.to_string()));
        assert!(std::error::Error::source(&error).is_none(), "it would be told twice");
    }
}

#[tokio::test(start_paused = true)]
async fn debug_tells_what_is_left() {
    let wheel = TimingWheel::new();
    let deadline = wheel.deadline_in(ms(1500));
    assert_eq!(format!("{deadline:?}"), "Deadline(1.5s left)");
    deadline.cancel();
    assert_eq!(format!("{deadline:?}"), "Deadline(Cancelled)");
    assert_eq!(format!("{:?}", wheel.deadline_in(Duration::MAX)), "Deadline(no limit)");
}
