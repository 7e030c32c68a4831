//! How a deadline ends, and what it costs the wheel.

use std::future::{pending, poll_fn, ready};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use timingwheel::TimingWheel;
use timingwheel_deadline::{Deadline, DeadlineExt, Ended, ReusableDeadline, spawn};
use tokio::task::coop;
use tokio::time::{Instant, advance, sleep};
use tokio_test::task;

use crate::{ms, passed, pending_once, wait};

#[tokio::test(start_paused = true)]
async fn any_number_of_futures_have_one_entry_in_the_wheel() {
    let wheel = TimingWheel::new();
    let deadline = wheel.deadline_in(ms(100));
    assert_eq!(wheel.pending(), 0, "nobody waits");
    let child = deadline.child_in(ms(150));
    let tasks: Vec<_> = (0..100).map(|i| passed(if i % 2 == 0 { &deadline } else { &child })).collect();
    sleep(ms(1)).await;
    assert_eq!(wheel.pending(), 1);
    for task in tasks {
        assert_eq!(task.await.unwrap(), Ended::Passed);
    }
    assert_eq!(wheel.stats().fired, 1);
    assert_eq!(wheel.pending(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_future_that_uses_up_the_budget_does_not_escape_its_deadline() {
    let wheel = TimingWheel::new();
    let (deadline, mut reusable) = (wheel.deadline_in(ms(10)), ReusableDeadline::new(&wheel));
    reusable.start_in(ms(10));
    sleep(ms(20)).await;
    let busy = || {
        let mut polls = 0..3;
        poll_fn(move |cx| match polls.next() {
            Some(_) => loop {
                std::task::ready!(coop::poll_proceed(cx)).made_progress();
            },
            None => Poll::Ready(()),
        })
    };
    assert_eq!(deadline.run(busy()).await, Err(Ended::Passed));
    // So that the task has a budget again.
    tokio::task::yield_now().await;
    assert_eq!(reusable.run(busy()).await, Err(Ended::Passed));
}

#[tokio::test(start_paused = true)]
async fn a_forgotten_future_of_a_child_that_is_gone_harms_nobody() {
    let root = TimingWheel::new().deadline_in(ms(100));
    let (child, other) = (root.child(), root.child());
    let first = pending_once(root.passed());
    let mut forgotten = Box::pin(child.passed());
    assert!(forgotten.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    std::mem::forget(forgotten);
    drop(child);
    other.cancel();
    assert!(other.has_ended() && !root.has_ended());
    root.cancel();
    assert!(first.is_woken());
}

#[tokio::test(start_paused = true)]
async fn a_forgotten_future_leaves_no_timer_when_the_deadline_is_dropped() {
    let wheel = TimingWheel::new();
    let deadline = wheel.deadline_in(ms(100));
    for _ in 0..2 {
        let forgotten = pending_once(Box::pin(deadline.passed()));
        std::mem::forget(forgotten);
    }
    assert_eq!(wheel.pending(), 1);
    drop(deadline);
    assert_eq!(wheel.pending(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_child_in_the_place_of_another_one_ends_at_its_own_time() {
    let start = Instant::now();
    let root = TimingWheel::new().deadline_in(ms(100));
    for after in [80, 20, 50] {
        let child = root.child_in(ms(after));
        assert!(child.run(sleep(ms(1))).await.is_ok());
        drop(child);
    }
    assert_eq!(root.child_at(start + ms(10)).run(pending::<()>()).await, Err(Ended::Passed));
    assert_eq!(start.elapsed(), ms(10));
}

#[tokio::test(start_paused = true)]
async fn a_ready_future_arms_nothing_and_comes_before_the_end() {
    let wheel = TimingWheel::new();
    let deadline = wheel.deadline_in(ms(1));
    deadline.cancel();
    assert_eq!(deadline.run(ready(7)).await, Ok(7));
    assert_eq!(wheel.stats().armed, 0);
}

#[tokio::test(start_paused = true)]
async fn a_call_ends_at_its_own_limit_and_the_deadline_goes_on() {
    let deadline = TimingWheel::new().deadline_in(ms(50));
    let start = Instant::now();
    assert_eq!(deadline.run_in(ms(20), pending::<()>()).await, Err(Ended::Passed));
    assert_eq!(start.elapsed(), ms(20));
    assert!(!deadline.has_ended());
    assert_eq!(deadline.run_in(ms(80), pending::<()>()).await, Err(Ended::Passed));
    assert_eq!(start.elapsed(), ms(50));
    assert!(deadline.has_ended());
}

#[tokio::test(start_paused = true)]
async fn a_task_may_wait_for_several_deadlines_of_a_tree_at_once() {
    let start = Instant::now();
    let request = TimingWheel::new().deadline_in(ms(50));
    for part in [request.child_in(ms(20)), request.child_in(ms(30)), request.child_in(ms(80))] {
        let at = part.instant();
        let work = request.run(part.run(request.run_in(ms(70), pending::<()>())));
        let _end = work.await;
        assert_eq!(Instant::now(), at, "{:?}", start.elapsed());
    }
    assert_eq!(start.elapsed(), ms(50));
}

#[tokio::test(start_paused = true)]
async fn a_future_that_goes_to_another_task_is_ended_there() {
    for others in 0..2 {
        let deadline = TimingWheel::new().deadline_in(ms(50));
        let other = deadline.clone();
        let _others: Vec<_> = (0..others).map(|_| pending_once(other.passed())).collect();
        let mut here = Box::pin(deadline.run(pending::<()>()));
        drop(pending_once(here.as_mut()));
        let mut there = pending_once(here);
        let call = deadline.run_in(ms(10), pending::<()>()).await;
        assert_eq!(call, Err(Ended::Passed));
        sleep(ms(39)).await;
        assert!(there.poll().is_pending());
        sleep(ms(2)).await;
        assert!(there.is_woken());
        assert_eq!(there.await, Err(Ended::Passed));
    }
}

#[tokio::test(start_paused = true)]
async fn the_timer_of_a_task_that_was_cancelled_serves_the_next_task() {
    let deadline = TimingWheel::new().deadline_in(ms(50));
    let child = deadline.child_in(ms(20));
    let cancelled = pending_once(child.passed());
    child.cancel();
    let next = pending_once(deadline.passed());
    sleep(ms(51)).await;
    assert!(next.is_woken());
    assert_eq!((cancelled.await, next.await), (Ended::Cancelled, Ended::Passed));
}

#[tokio::test(start_paused = true)]
async fn a_cancel_ends_children_and_not_the_parent() {
    let parent = TimingWheel::new().deadline_in(ms(50));
    let child = parent.child();
    let grandchild = child.child_in(ms(10));
    let (of_parent, of_grandchild) = (pending_once(parent.passed()), pending_once(grandchild.passed()));
    child.cancel();
    assert!(of_grandchild.is_woken());
    assert_eq!(of_grandchild.await, Ended::Cancelled);
    assert!(!of_parent.is_woken());
    assert!(grandchild.has_ended() && !parent.has_ended());
    assert_eq!(child.child().run(pending::<()>()).await, Err(Ended::Cancelled), "a child that comes late");
}

#[tokio::test(start_paused = true)]
async fn a_deadline_can_be_moved_both_ways_until_it_has_ended() {
    let start = Instant::now();
    let deadline = TimingWheel::new().deadline_in(ms(50));
    let waits = passed(&deadline);
    sleep(ms(40)).await;
    assert!(deadline.reset(start + ms(100)));
    sleep(ms(40)).await;
    assert!(!waits.is_finished());
    assert!(deadline.reset_after(ms(5)));
    assert_eq!(waits.await.unwrap(), Ended::Passed);
    assert_eq!(start.elapsed(), ms(85));
    assert!(!deadline.reset_after(ms(50)), "it has passed");
    assert_eq!(deadline.run(pending::<()>()).await, Err(Ended::Passed));
}

#[tokio::test(start_paused = true)]
async fn a_move_into_the_past_ends_a_deadline_now_and_changes_no_end_before() {
    let deadline = TimingWheel::new().deadline_in(ms(50));
    let (start, child) = (Instant::now(), deadline.child());
    sleep(ms(20)).await;
    child.cancel();
    assert!(deadline.reset(start + ms(10)));
    assert_eq!(deadline.instant(), start + ms(10));
    assert_eq!((deadline.passed().await, child.passed().await), (Ended::Passed, Ended::Cancelled));
    assert_eq!(start.elapsed(), ms(20));
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_passed_unseen_stays_passed() {
    let deadline = TimingWheel::new().deadline_in(ms(5));
    advance(ms(6)).await;
    assert!(!deadline.reset_after(ms(50)));
    deadline.cancel();
    assert_eq!(deadline.passed().await, Ended::Passed, "not cancelled");
}

#[tokio::test(start_paused = true)]
async fn a_dropped_tree_leaves_nothing() {
    let wheel = TimingWheel::builder().max_pending(1).build().unwrap();
    for _ in 0..3 {
        let deadline = wheel.deadline_in(ms(1000));
        let child = deadline.child_in(ms(500));
        let run = pending_once(async move { child.run(pending::<()>()).await });
        assert_eq!(wheel.pending(), 1);
        drop(deadline);
        assert_eq!(wheel.pending(), 1, "a future still waits");
        drop(run);
        assert_eq!(wheel.pending(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_full_wheel_changes_nothing() {
    let wheel = TimingWheel::builder().max_pending(1).build().unwrap();
    let other = wheel.try_sleep(ms(1000)).unwrap();
    let start = Instant::now();
    let deadline = wheel.deadline_in(ms(50));
    let of_child = passed(&deadline.child_in(ms(20)));
    let of_call = wait(&deadline, ms(30));
    let waits = passed(&deadline);
    let child = deadline.child();
    let cancelled = passed(&child);
    assert_eq!(of_child.await.unwrap(), Ended::Passed);
    assert_eq!(start.elapsed(), ms(20));
    child.cancel();
    assert_eq!(cancelled.await.unwrap(), Ended::Cancelled);
    assert_eq!(of_call.await.unwrap(), Ended::Passed);
    assert_eq!(start.elapsed(), ms(30));
    assert_eq!(waits.await.unwrap(), Ended::Passed);
    assert_eq!(start.elapsed(), ms(50));
    assert_eq!(wheel.stats().armed, 1, "the other");
    drop(other);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_on_a_full_wheel_can_be_moved_both_ways() {
    for (moved, has_place) in [(20, false), (100, false), (20, true), (100, true)] {
        let wheel = TimingWheel::builder().max_pending(1).build().unwrap();
        let mut other = wheel.try_sleep(ms(1000)).ok();
        let start = Instant::now();
        let deadline = wheel.deadline_in(ms(50));
        // One whose own limit was there before, and is no node's.
        let of_call = wait(&deadline, ms(15));
        let waits = passed(&deadline);
        sleep(ms(1)).await;
        if has_place {
            other = None;
            // The wheel takes this one, with a limit that is later than that of the call.
            let _later = deadline.run_in(ms(17), sleep(ms(1))).await;
            assert_eq!(wheel.pending(), 1);
        }
        assert!(deadline.reset(start + ms(moved)));
        assert_eq!(of_call.await.unwrap(), Ended::Passed);
        assert!(start.elapsed() <= ms(17), "{:?}", start.elapsed());
        assert_eq!(waits.await.unwrap(), Ended::Passed);
        assert!(start.elapsed() >= ms(moved) && start.elapsed() <= ms(moved + 2));
        drop(other);
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_wheel_changes_nothing() {
    let wheel = TimingWheel::new();
    let start = Instant::now();
    let deadline = wheel.deadline_in(ms(10));
    let waits = passed(&deadline);
    sleep(ms(1)).await;
    wheel.shutdown();
    assert_eq!(deadline.run_in(ms(5), pending::<()>()).await, Err(Ended::Passed));
    assert_eq!(start.elapsed(), ms(6));
    assert_eq!(waits.await.unwrap(), Ended::Passed);
    assert_eq!(start.elapsed(), ms(10));
}

#[tokio::test(start_paused = true)]
async fn a_task_has_its_own_current_deadline() {
    let wheel = TimingWheel::new();
    let deadline = wheel.deadline_in(ms(10));
    assert!(Deadline::current().is_none());
    let carried = deadline.scope(async { spawn(async { Deadline::current().map(|it| it.instant()) }).await });
    assert_eq!(carried.await.unwrap(), Some(deadline.instant()));
    let not_carried = deadline.scope(async { tokio::spawn(async { Deadline::current().is_some() }).await });
    assert!(!not_carried.await.unwrap());
    assert!(spawn(async { Deadline::current().is_none() }).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_deadline_without_end_can_be_cancelled() {
    let deadline = TimingWheel::new().deadline_in(std::time::Duration::MAX);
    let waits = passed(&deadline);
    sleep(ms(1000)).await;
    deadline.cancel();
    assert_eq!(waits.await.unwrap(), Ended::Cancelled);
}

/// In the second runtime tokio's timers keep the time.
#[test]
fn a_deadline_outlives_its_runtime() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let first = runtime();
    let deadline = first.block_on(async { TimingWheel::new().deadline_in(ms(30)) });
    let mut waits = task::spawn(deadline.passed());
    first.block_on(async { assert!(waits.poll().is_pending()) });
    drop(first);
    assert!(waits.is_woken(), "to wait in another runtime");
    assert_eq!(runtime().block_on(deadline.run(pending::<()>())), Err(Ended::Passed));
    assert!(Instant::now() >= deadline.instant());
    assert_eq!(runtime().block_on(waits), Ended::Passed);
}

#[test]
fn ends_become_io_errors_and_debug_tells_what_is_left() {
    assert_eq!(io::Error::from(Ended::Passed).kind(), io::ErrorKind::TimedOut);
    assert_eq!(io::Error::from(Ended::Cancelled).kind(), io::ErrorKind::ConnectionAborted);
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let deadline = TimingWheel::new().deadline_in(ms(1500));
        assert_eq!(format!("{deadline:?}"), "Deadline(1.5s left)");
        deadline.cancel();
        assert_eq!(format!("{deadline:?}"), "Deadline(Cancelled)");
    });
}

struct Panics;

impl std::task::Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("a waker that panics");
    }
}

#[tokio::test(start_paused = true)]
async fn a_waker_that_panics_keeps_nothing_from_the_others() {
    let wheel = TimingWheel::new();
    let panics = Arc::new(Panics).into();
    let mut cx = Context::from_waker(&panics);
    for is_cancelled in [false, true] {
        let deadline = wheel.deadline_in(ms(10));
        let mut first = deadline.passed();
        assert!(Pin::new(&mut first).poll(&mut cx).is_pending());
        let other = passed(&deadline);
        sleep(ms(1)).await;
        if is_cancelled {
            deadline.cancel();
        }
        let end = if is_cancelled { Ended::Cancelled } else { Ended::Passed };
        assert_eq!(other.await.unwrap(), end);
        let later = deadline.child_in(ms(5)).passed().await;
        assert_eq!(later, end, "the timer goes on");
    }
}

struct PanicsInDrop;

impl std::task::Wake for PanicsInDrop {
    fn wake(self: Arc<Self>) {}
}

impl Drop for PanicsInDrop {
    fn drop(&mut self) {
        panic!("a waker that panics as it is dropped");
    }
}

#[tokio::test(start_paused = true)]
async fn a_waker_that_panics_as_it_is_dropped_keeps_no_deadline() {
    let wheel = TimingWheel::new();
    let root = wheel.deadline_in(ms(10));
    let child = root.child().child();
    {
        let waker = Arc::new(PanicsInDrop).into();
        assert!(pin!(child.passed()).poll(&mut Context::from_waker(&waker)).is_pending());
        // The tree has the last reference.
    }
    assert_eq!(wheel.pending(), 1);
    assert!(catch_unwind(AssertUnwindSafe(|| drop(child))).is_err());
    assert!(pin!(root.passed()).poll(&mut Context::from_waker(Waker::noop())).is_pending());
    assert_eq!(wheel.pending(), 1);
    drop(root);
    assert_eq!(wheel.pending(), 0);
}

#[derive(Debug)]
struct PanicsInClone;

impl Clone for PanicsInClone {
    fn clone(&self) -> Self {
        panic!("a waker that panics as it is cloned");
    }
}

impl cooked_waker::WakeRef for PanicsInClone {
    fn wake_by_ref(&self) {}
}

impl cooked_waker::Wake for PanicsInClone {}

#[tokio::test(start_paused = true)]
async fn a_waker_that_cannot_be_cloned_keeps_nothing_from_the_others() {
    let wheel = TimingWheel::new();
    let panics = cooked_waker::IntoWaker::into_waker(Box::new(PanicsInClone));
    for others in [false, true] {
        let deadline = wheel.deadline_in(ms(10));
        let before = others.then(|| passed(&deadline));
        sleep(ms(1)).await;
        let polled = catch_unwind(AssertUnwindSafe(|| {
            let _ = pin!(deadline.passed()).poll(&mut Context::from_waker(&panics));
        }));
        assert!(polled.is_err());
        assert_eq!(deadline.run_in(ms(2), pending::<()>()).await, Err(Ended::Passed));
        assert!(!deadline.has_ended());
        assert_eq!(deadline.passed().await, Ended::Passed);
        assert!(Instant::now() >= deadline.instant());
        if let Some(before) = before {
            assert_eq!(before.await.unwrap(), Ended::Passed);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_deadline_takes_its_timer_and_its_wakers_out() {
    let wheel = TimingWheel::new();
    for is_child in [false, true] {
        let root = wheel.deadline_in(ms(10_000));
        let deadline = if is_child { root.child() } else { root.clone() };
        let task = Arc::new(Panics);
        let waker = task.clone().into();
        let mut cx = Context::from_waker(&waker);
        let mut waits = [deadline.passed(), deadline.passed()];
        for waits in &mut waits {
            assert!(pin!(waits).poll(&mut cx).is_pending());
        }
        assert_eq!(wheel.pending(), 1);
        deadline.cancel();
        assert_eq!(wheel.pending(), 0);
        assert_eq!(Arc::strong_count(&task), 2, "this one, and that of its waker here");
        assert!(pin!(&mut waits[0]).poll(&mut cx).is_ready());
        assert_eq!(wheel.pending(), 0);
    }
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
async fn a_very_long_chain_of_children_can_be_dropped() {
    let mut deadline = TimingWheel::new().deadline_in(ms(10));
    for _ in 0..200_000 {
        deadline = deadline.child();
    }
    drop(deadline);
}
