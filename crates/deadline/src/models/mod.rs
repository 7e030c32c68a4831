//! A tree of deadlines in many orders of its threads. A lost wake-up is a deadlock, which loom reports.

pub(crate) mod wheel;

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use loom::model::Builder;
use loom::sync::Notify;
use loom::thread;
use tokio::time::Instant;

use crate::Deadline;
use crate::ended::Ended;
use crate::run::Passed;
use crate::tree::Limit;
use wheel::TimingWheel;

const SECOND: Duration = Duration::from_secs(1);

/// A tree on a wheel.
struct Model {
    wheel: TimingWheel,
    start: Instant,
}

impl Model {
    fn new() -> Self {
        let wheel = TimingWheel::new();
        Self { start: wheel.current_time(), wheel }
    }

    fn at(&self, seconds: u32) -> Instant {
        self.start + SECOND * seconds
    }

    fn root(&self, seconds: u32) -> Deadline {
        Deadline::root(&self.wheel, self.at(seconds), None)
    }

    /// Asserts that a dropped child leaves nothing in its tree, and a dropped tree nothing at all. The root is last.
    fn drop_tree<const N: usize>(&self, deadlines: [Deadline; N]) {
        let tree = Arc::downgrade(&deadlines[0].tree);
        for (i, deadline) in deadlines.into_iter().enumerate() {
            let state = deadline.tree.lock();
            assert_eq!((state.children.len(), state.others.len()), (N - 1 - i, 0));
            drop(state);
        }
        assert!(tree.upgrade().is_none());
        assert_eq!(self.wheel.pending(), 0);
    }
}

fn wait(deadline: &Deadline) -> Ended {
    block_on(deadline.passed())
}

/// Waits for two ends in one task: that of a deadline, and a limit under it.
fn wait_for_both(deadline: &Deadline, limit: u32) -> [Ended; 2] {
    let (mut first, mut second) = (deadline.passed(), passed_in(deadline, limit));
    let mut ends = [None; 2];
    block_on(poll_fn(|cx| {
        for (end, future) in ends.iter_mut().zip([&mut first, &mut second]) {
            if end.is_none()
                && let Poll::Ready(ended) = Pin::new(future).poll(cx)
            {
                *end = Some(ended);
            }
        }
        if let [Some(first), Some(second)] = ends { Poll::Ready([first, second]) } else { Poll::Pending }
    }))
}

/// Waits for a limit under a deadline.
fn passed_in(deadline: &Deadline, limit: u32) -> Passed<'_> {
    Passed::new(deadline, Limit::After(SECOND * limit))
}

async fn poll_once(deadline: &Deadline, limit: u32) {
    let mut passed = passed_in(deadline, limit);
    _ = poll_fn(|cx| Poll::Ready(Pin::new(&mut passed).poll(cx))).await;
}

/// A future that is polled once and dropped. By loom's waker, which need not know its clones.
fn poll_and_drop(deadline: &Deadline, limit: u32) {
    loom::future::block_on(poll_once(deadline, limit));
}

/// As loom's, but with a waker that knows its clones: a future finds that it is registered already.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Notify);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.notify();
        }
    }
    let unpark = Arc::new(Unpark(Notify::new()));
    let waker = Waker::from(unpark.clone());
    assert!(waker.will_wake(&waker.clone()));
    let (mut future, mut cx) = (pin!(future), Context::from_waker(&waker));
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
            return output;
        }
        unpark.0.wait();
    }
}

/// Runs a model in those orders of its threads in which they interrupt each other at most three times, or as often as the
/// environment's `LOOM_MAX_PREEMPTIONS` says. Asserts that its outcomes are `outcomes`.
fn check<const N: usize>(
    outcomes: [&'static str; N],
    run: impl Fn(&Arc<Model>) -> &'static str + Send + Sync + 'static,
) {
    let seen = Arc::new(Mutex::new(BTreeSet::new()));
    let mut builder = Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(3));
    builder.check({
        let seen = seen.clone();
        move || {
            let outcome = run(&Arc::new(Model::new()));
            seen.lock().unwrap().insert(outcome);
        }
    });
    assert_eq!(*seen.lock().unwrap(), BTreeSet::from(outcomes));
}

const fn name(end: Ended) -> &'static str {
    match end {
        Ended::Passed => "passed",
        Ended::Cancelled => "cancelled",
    }
}

/// Runs `run` in a thread of its own.
fn spawn<T: 'static>(
    model: &Arc<Model>,
    deadline: &Deadline,
    run: impl FnOnce(&Model, &Deadline) -> T + 'static,
) -> thread::JoinHandle<T> {
    let (model, deadline) = (model.clone(), deadline.clone());
    thread::spawn(move || run(&model, &deadline))
}

#[test]
fn a_child_that_is_made_while_its_parent_ends_ends_too() {
    check(["cancelled"], |model| {
        let root = model.root(10);
        let cancels = spawn(model, &root, |_, root| root.cancel());
        let child = root.child_at(model.at(20));
        let end = wait(&child);
        cancels.join().unwrap();
        assert_eq!(root.end(), Some(Ended::Cancelled));
        assert_eq!(model.wheel.pending(), 0, "a cancelled tree has a timer");
        model.drop_tree([child, root]);
        name(end)
    });
}

#[test]
fn a_child_that_is_made_while_its_parents_time_comes_ends_then() {
    check(["passed"], |model| {
        let root = model.root(10);
        let waits = spawn(model, &root, |_, root| wait(root));
        let passes = spawn(model, &root, |model, _| model.wheel.advance(SECOND * 10));
        let child = root.child_at(model.at(20));
        let end = wait(&child);
        assert!(model.wheel.current_time() >= model.at(10), "early");
        passes.join().unwrap();
        assert_eq!(waits.join().unwrap(), end);
        model.drop_tree([child, root]);
        name(end)
    });
}

#[test]
fn a_future_under_a_deadline_that_moves_later_is_not_ended_at_the_old_time_once_it_was_moved() {
    check(["moved", "too late"], |model| {
        let root = model.root(10);
        let waits = spawn(model, &root, |model, root| {
            let end = wait(root);
            (end, model.wheel.current_time())
        });
        let passes = spawn(model, &root, |model, _| model.wheel.advance(SECOND * 10));
        let has_moved = root.reset(model.at(20));
        passes.join().unwrap();
        model.wheel.advance(SECOND * 10);
        let (end, at) = waits.join().unwrap();
        assert_eq!(end, Ended::Passed);
        assert!(at >= root.instant(), "early");
        model.drop_tree([root]);
        if has_moved { "moved" } else { "too late" }
    });
}

#[test]
fn a_future_under_a_deadline_that_moves_earlier_ends_then() {
    check(["passed"], |model| {
        let root = model.root(20);
        let waits = spawn(model, &root, |_, root| wait(root));
        let moves = spawn(model, &root, |model, root| assert!(root.reset(model.at(5))));
        poll_and_drop(&root, 3);
        moves.join().unwrap();
        model.wheel.advance(SECOND * 5);
        let end = waits.join().unwrap();
        model.drop_tree([root]);
        name(end)
    });
}

#[test]
fn a_dropped_future_with_an_earlier_limit_takes_no_timer_from_the_others() {
    check(["passed"], |model| {
        let root = model.root(20);
        let child = root.child_at(model.at(10));
        let waits = spawn(model, &child, |_, child| wait(child));
        let passes = spawn(model, &root, |model, _| model.wheel.advance(SECOND * 7));
        poll_and_drop(&root, 5);
        passes.join().unwrap();
        assert!(model.wheel.pending() <= 1);
        model.wheel.advance(SECOND * 5);
        let end = waits.join().unwrap();
        assert_eq!(root.end(), None);
        model.drop_tree([child, root]);
        name(end)
    });
}

#[test]
fn a_deadline_ends_once_by_its_time_or_by_a_cancel() {
    check(["cancelled", "passed"], |model| {
        let root = model.root(10);
        let waits = spawn(model, &root, |_, root| wait(root));
        let passes = spawn(model, &root, |model, _| model.wheel.advance(SECOND * 10));
        root.cancel();
        let end = root.end().expect("it was cancelled, if not before");
        passes.join().unwrap();
        assert_eq!(waits.join().unwrap(), end, "all are told the same");
        model.drop_tree([root]);
        name(end)
    });
}

#[test]
fn a_deadline_that_was_seen_to_have_passed_is_not_moved_any_more() {
    check(["moved", "too late"], |model| {
        let root = model.root(10);
        let moves = spawn(model, &root, |model, root| root.reset(model.at(20)));
        model.wheel.advance(SECOND * 10);
        let has_passed = root.end().is_some();
        let has_moved = moves.join().unwrap();
        assert_ne!(has_passed, has_moved);
        model.drop_tree([root]);
        if has_moved { "moved" } else { "too late" }
    });
}

#[test]
fn a_wheel_that_ends_leaves_each_future_its_own_time() {
    check(["passed"], |model| {
        let root = model.root(10);
        let waits = spawn(model, &root, |_, root| wait(root));
        let ends = spawn(model, &root, |model, _| model.wheel.shutdown());
        model.wheel.advance(SECOND * 20);
        model.wheel.advance_tokio(SECOND * 20);
        let end = waits.join().unwrap();
        ends.join().unwrap();
        model.drop_tree([root]);
        name(end)
    });
}

#[test]
fn a_future_that_keeps_its_own_time_is_cancelled_all_the_same() {
    check(["cancelled"], |model| {
        let root = model.root(10);
        let waits = spawn(model, &root, |_, root| wait(root));
        let ends = spawn(model, &root, |model, _| model.wheel.shutdown());
        root.cancel();
        let end = waits.join().unwrap();
        ends.join().unwrap();
        model.drop_tree([root]);
        name(end)
    });
}

#[test]
fn two_futures_of_a_task_and_one_of_another_end_at_their_own_times() {
    check(["passed"], |model| {
        let root = model.root(10);
        let waits = spawn(model, &root, |model, root| {
            let end = wait(root);
            assert!(model.wheel.current_time() >= model.at(10), "early");
            end
        });
        let passes = spawn(model, &root, |model, _| {
            model.wheel.advance(SECOND * 5);
            model.wheel.advance(SECOND * 5);
        });
        let ends = wait_for_both(&root, 5);
        passes.join().unwrap();
        assert_eq!(ends, [waits.join().unwrap(); 2]);
        model.drop_tree([root]);
        name(ends[0])
    });
}

#[test]
fn a_task_that_waits_alone_is_told_of_a_move_and_of_a_cancel() {
    check(["cancelled", "passed"], |model| {
        let root = model.root(10);
        let child = root.child_at(model.at(8));
        let moves = spawn(model, &root, |model, root| {
            assert!(root.reset(model.at(5)));
            model.wheel.advance(SECOND * 5);
        });
        let cancels = spawn(model, &child, |_, child| child.cancel());
        let end = wait(&child);
        moves.join().unwrap();
        cancels.join().unwrap();
        model.drop_tree([child, root]);
        name(end)
    });
}

#[test]
fn a_further_future_of_a_task_is_told_of_a_cancel_and_of_its_time() {
    check(["cancelled", "passed"], |model| {
        let root = model.root(10);
        let cancels = spawn(model, &root, |_, root| root.cancel());
        let passes = spawn(model, &root, |model, _| {
            model.wheel.advance(SECOND * 5);
            model.wheel.advance(SECOND * 5);
        });
        let end = block_on(async {
            poll_once(&root, 5).await;
            passed_in(&root, 6).await
        });
        cancels.join().unwrap();
        passes.join().unwrap();
        model.drop_tree([root]);
        name(end)
    });
}

#[test]
fn a_tree_that_is_dropped_while_its_timer_fires_leaves_nothing() {
    check(["dropped"], |model| {
        let root = model.root(10);
        let tree = Arc::downgrade(&root.tree);
        poll_and_drop(&root, 5);
        let passes = thread::spawn({
            let model = model.clone();
            move || model.wheel.advance(SECOND * 5)
        });
        let polls = spawn(model, &root, |_, root| poll_and_drop(root, 3));
        drop(root);
        passes.join().unwrap();
        polls.join().unwrap();
        assert!(tree.upgrade().is_none());
        assert_eq!(model.wheel.pending(), 0);
        "dropped"
    });
}

/// The one is moved between the wheel's refusal and its next look at the tree. By then the other one is the first, and keeps its
/// own time, and a third has armed the timer.
#[test]
fn a_task_that_keeps_its_own_time_is_not_told_to_wait_for_anothers() {
    check(["passed"], |model| {
        let root = model.root(10);
        let (late, early) = (root.child_at(model.at(3)), root.child_at(model.at(1)));
        model.wheel.set_full(true);
        let moves = spawn(model, &late, |model, late| _ = late.reset(model.at(4)));
        let other = root.clone();
        let waits = spawn(model, &early, move |model, early| {
            let (mut passed, mut is_first) = (early.passed(), true);
            block_on(poll_fn(|cx| {
                let polled = Pin::new(&mut passed).poll(cx);
                if std::mem::take(&mut is_first) {
                    model.wheel.set_full(false);
                    poll_and_drop(&other, 2);
                    model.wheel.advance(SECOND);
                    model.wheel.advance_tokio(SECOND);
                }
                polled
            }))
        });
        poll_and_drop(&late, 9);
        moves.join().unwrap();
        let end = waits.join().unwrap();
        drop((late, early));
        model.drop_tree([root]);
        name(end)
    });
}
