//! The race for an operation in many orders of its threads. A lost wake-up is a deadlock, which loom reports.
//!
//! The wheel is left out: loom cannot look into it, another crate, whose own models show that it wakes whom it has to. Here a
//! thread stands for it.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::sync::{Arc, LazyLock, Mutex};
use std::task::Poll;

use loom::future::block_on;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use tokio::runtime::{Builder, Runtime};

use crate::error::WatchError;
use crate::lists::{Listed, Lists};
use crate::operation::{Awaited, Operation, Outcome};

/// No model asks it for anything: a thread stands for it too.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Builder::new_current_thread().build().unwrap());

type Condition = Box<dyn FnMut() -> Option<&'static str> + Send>;

/// An operation whose condition takes `wanted` items, once there are as many.
struct Model {
    lists: Lists<()>,
    operation: Arc<Operation<(), Condition, &'static str>>,
    wanted: usize,
    items: Arc<AtomicUsize>,
}

impl Model {
    fn new(wanted: usize) -> Arc<Self> {
        let (model, condition) = Self::unwatched(wanted);
        assert!(model.watch(condition).is_none(), "there is nothing yet");
        model
    }

    fn unwatched(wanted: usize) -> (Arc<Self>, Condition) {
        let items = Arc::new(AtomicUsize::new(0));
        let taken = items.clone();
        let condition = move || {
            let take = |items: usize| items.checked_sub(wanted);
            taken.fetch_update(Ordering::AcqRel, Ordering::Acquire, take).ok().map(|_| "completed")
        };
        let lists = Lists::new();
        let operation = Arc::new(Operation::new(lists.places([()]), RUNTIME.handle().id()));
        (Arc::new(Self { lists, operation, wanted, items }), Box::new(condition))
    }

    /// After a first try, for which there was nothing.
    fn watch(&self, condition: Condition) -> Option<Outcome<&'static str>> {
        assert!(self.operation.places().add(&self.operation));
        self.operation.run(condition, None)
    }

    fn add_and_check(&self) -> bool {
        self.items.fetch_add(1, Ordering::AcqRel);
        self.lists.count_under(&(), |operation| operation.check(None)) == 1
    }

    fn add_and_check_in_task(&self) {
        self.items.fetch_add(1, Ordering::AcqRel);
        self.lists.count_under(&(), |operation| operation.ask());
    }

    /// By the task that the wheel spawns.
    fn expire(&self) {
        self.operation.check(Some(WatchError::Expired));
    }

    fn cancel(&self) -> bool {
        self.lists.count_under(&(), |operation| operation.end(WatchError::Cancelled)) == 1
    }

    fn assert_no_item_lost(&self, outcome: &str) {
        assert_eq!(self.items.load(Ordering::Relaxed), usize::from(outcome != "completed"));
    }

    fn outcome(&self) -> &'static str {
        let mut is_first = true;
        let outcome = block_on(poll_fn(|cx| {
            let outcome = self.operation.poll(cx.waker(), std::mem::take(&mut is_first));
            outcome.map_or(Poll::Pending, Poll::Ready)
        }));
        assert_eq!(self.lists.counts(), (0, 0), "it leaves its lists before its outcome shows");
        match outcome.unwrap() {
            Ok(output) => output,
            Err(WatchError::Expired) => "expired",
            Err(WatchError::Cancelled) => "cancelled",
            Err(error) => unreachable!("{error}"),
        }
    }
}

/// Drops the future; an output that it has not taken goes back to the items.
fn withdraw(model: &Arc<Model>) {
    let back = model.clone();
    let heir = move |_| _ = back.items.fetch_add(back.wanted, Ordering::AcqRel);
    model.operation.withdraw(Some(Box::new(heir)));
}

/// Runs `model` in those orders of its threads in which they interrupt each other at most three times, or as often as the
/// environment's `LOOM_MAX_PREEMPTIONS` says. Asserts that its outcomes are `outcomes`.
fn check<const N: usize>(
    outcomes: [&'static str; N],
    model: impl Fn() -> &'static str + Send + Sync + 'static,
) {
    let seen = Arc::new(Mutex::new(BTreeSet::new()));
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(3));
    builder.check({
        let seen = seen.clone();
        move || {
            let outcome = model();
            seen.lock().unwrap().insert(outcome);
        }
    });
    assert_eq!(*seen.lock().unwrap(), BTreeSet::from(outcomes));
}

fn spawn<T: 'static>(model: &Arc<Model>, run: fn(&Model) -> T) -> thread::JoinHandle<T> {
    let model = model.clone();
    thread::spawn(move || run(&model))
}

#[test]
fn no_check_is_missed() {
    check(["completed"], || {
        let model = Model::new(2);
        let checks = [(); 2].map(|()| spawn(&model, Model::add_and_check));
        let outcome = model.outcome();
        let counted = checks.map(|check| usize::from(check.join().unwrap()));
        assert!(counted.iter().sum::<usize>() <= 1);
        outcome
    });
}

#[test]
fn no_check_in_the_task_is_missed() {
    check(["completed"], || {
        let model = Model::new(2);
        let (check, ask) = (spawn(&model, Model::add_and_check), spawn(&model, Model::add_and_check_in_task));
        let outcome = model.outcome();
        check.join().unwrap();
        ask.join().unwrap();
        outcome
    });
}

#[test]
fn a_check_while_it_is_added_is_not_missed() {
    check(["completed"], || {
        let (model, condition) = Model::unwatched(1);
        let check = spawn(&model, Model::add_and_check);
        let is_complete = model.watch(condition).is_some();
        let outcome = if is_complete { "completed" } else { model.outcome() };
        assert!(!(is_complete && check.join().unwrap()));
        model.assert_no_item_lost(outcome);
        outcome
    });
}

#[test]
fn a_check_and_the_deadline_end_it_once() {
    check(["completed", "expired"], || {
        let model = Model::new(1);
        let threads = (spawn(&model, Model::add_and_check), spawn(&model, Model::expire));
        let outcome = model.outcome();
        let is_counted = threads.0.join().unwrap();
        threads.1.join().unwrap();
        assert!(!is_counted || outcome == "completed");
        model.assert_no_item_lost(outcome);
        outcome
    });
}

#[test]
fn a_check_and_a_cancel_end_it_once() {
    check(["cancelled", "completed"], || {
        let model = Model::new(1);
        let (check, cancel) = (spawn(&model, Model::add_and_check), spawn(&model, Model::cancel));
        let outcome = model.outcome();
        let (completed, cancelled) = (check.join().unwrap(), cancel.join().unwrap());
        assert!(!(completed && cancelled));
        assert!((!completed || outcome == "completed") && (!cancelled || outcome == "cancelled"));
        model.assert_no_item_lost(outcome);
        outcome
    });
}

#[test]
fn the_deadline_and_a_cancel_end_it_once() {
    check(["cancelled", "expired"], || {
        let model = Model::new(1);
        let (expire, cancel) = (spawn(&model, Model::expire), spawn(&model, Model::cancel));
        let outcome = model.outcome();
        expire.join().unwrap();
        assert!(!cancel.join().unwrap() || outcome == "cancelled");
        outcome
    });
}

/// A check, `other` and a dropped future.
fn withdrawn(other: fn(&Model)) {
    check(["withdrawn"], move || {
        let model = Model::new(1);
        let threads = [spawn(&model, |model| _ = model.add_and_check()), spawn(&model, other)];
        withdraw(&model);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(model.lists.counts(), (0, 0));
        assert_eq!(model.items.load(Ordering::Relaxed), 1, "no item is lost");
        "withdrawn"
    });
}

#[test]
fn a_check_the_deadline_and_a_dropped_future_end_it_once_and_the_output_is_given_back() {
    withdrawn(Model::expire);
}

#[test]
fn a_check_a_cancel_and_a_dropped_future_end_it_once_and_the_output_is_given_back() {
    withdrawn(|model| _ = model.cancel());
}
