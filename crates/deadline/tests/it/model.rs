//! Random trees of deadlines beside a model without timers: each future ends at the earliest of its limits, exactly once,
//! never early, for the reason that came first, in whichever task it is. How a deadline was seen to end stays.

use std::future::{Future, pending};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use proptest::prelude::*;
use timingwheel::TimingWheel;
use timingwheel_deadline::{Deadline, DeadlineExt, Ended};
use tokio::time::{Instant, sleep};
use tokio_test::task::{Spawn, spawn};

use crate::ms;

/// A turn on the paused clock may come a tick after the deadline, or two.
const LATE: Duration = ms(2);

#[derive(Clone, Debug)]
enum Op {
    Child { of: usize, after: Option<u64> },
    Wait { on: usize, limit: Option<u64>, task: usize, was_polled: bool },
    Poll { task: usize },
    Extend { node: usize, after: u64 },
    Cancel { node: usize },
    DropNode { node: usize },
    DropWaiter { waiter: usize },
    MoveWaiter { waiter: usize, task: usize },
    Sleep { ms: u64 },
}

fn op() -> impl Strategy<Value = Op> {
    let any = || 0usize..1000;
    let after = || 0u64..60;
    prop_oneof![
        3 => (any(), proptest::option::of(after())).prop_map(|(of, after)| Op::Child { of, after }),
        6 => (any(), proptest::option::of(after()), 0..TASKS, proptest::bool::ANY)
            .prop_map(|(on, limit, task, was_polled)| Op::Wait { on, limit, task, was_polled }),
        1 => (0..TASKS).prop_map(|task| Op::Poll { task }),
        3 => (any(), after()).prop_map(|(node, after)| Op::Extend { node, after }),
        1 => any().prop_map(|node| Op::Cancel { node }),
        1 => any().prop_map(|node| Op::DropNode { node }),
        2 => any().prop_map(|waiter| Op::DropWaiter { waiter }),
        1 => (any(), 0..TASKS).prop_map(|(waiter, task)| Op::MoveWaiter { waiter, task }),
        5 => (0u64..25).prop_map(|ms| Op::Sleep { ms }),
    ]
}

struct Node {
    real: Option<Deadline>,
    parent: Option<usize>,
    at: Instant,
    cancelled: Option<Instant>,
    /// As it was seen.
    end: Option<Ended>,
}

/// Waiters of the same task have the same waker.
const TASKS: usize = 3;

struct Waiter {
    real: Pin<Box<dyn Future<Output = Ended> + Send + Sync>>,
    task: usize,
    node: usize,
    /// Begins with the first poll.
    limit: Limit,
    was_polled: bool,
}

#[derive(Clone, Copy)]
enum Limit {
    None,
    After(Duration),
    At(Instant),
}

/// Polls the waiters of a task, and drops those that have ended. Checks what they are told.
fn poll(model: &Model, tasks: &mut [Spawn<()>], waiters: &mut Vec<Waiter>, task: usize) {
    let now = Instant::now();
    tasks[task].enter(|cx, _| {
        waiters.retain_mut(|waiter| {
            if waiter.task != task || !waiter.was_polled {
                return true;
            }
            if let Limit::After(after) = waiter.limit {
                waiter.limit = Limit::At(now + after);
            }
            let Poll::Ready(end) = waiter.real.as_mut().poll(cx) else { return true };
            model.check(waiter, now, Some(end));
            false
        });
    });
}

#[derive(Default)]
struct Model {
    nodes: Vec<Node>,
}

impl Model {
    fn chain(&self, node: usize) -> impl Iterator<Item = &Node> {
        std::iter::successors(Some(&self.nodes[node]), |node| node.parent.map(|parent| &self.nodes[parent]))
    }

    fn passes(&self, node: usize) -> Instant {
        self.chain(node).map(|node| node.at).min().unwrap()
    }

    fn cancelled(&self, node: usize) -> Option<Instant> {
        self.chain(node).filter_map(|node| node.cancelled).min()
    }

    fn has_ended(&self, node: usize, now: Instant) -> bool {
        self.cancelled(node).is_some() || self.passes(node) <= now
    }

    /// Checks what a poll at `now` answered.
    fn check(&self, waiter: &Waiter, now: Instant, answer: Option<Ended>) {
        let passes = self.passes(waiter.node);
        let passes = if let Limit::At(limit) = waiter.limit { limit.min(passes) } else { passes };
        let cancelled = self.cancelled(waiter.node);
        match answer {
            Some(Ended::Passed | Ended::Limit) => assert!(passes <= now, "early by {:?}", passes - now),
            Some(Ended::Cancelled) => {
                let cancelled = cancelled.expect("nobody cancelled it");
                // Its own limit marks no node, and nobody looked at a node without a handle when it passed.
                let was_seen = self.chain(waiter.node).min_by_key(|it| it.at).unwrap().real.is_some();
                assert!(
                    cancelled <= passes + LATE || matches!(waiter.limit, Limit::At(_)) || !was_seen,
                    "it had passed before"
                );
            }
            None => {
                assert!(cancelled.is_none(), "cancelled, and it still waits");
                assert!(passes + LATE > now, "late by {:?}", now - passes);
            }
        }
    }
}

async fn run(wheel: TimingWheel, ops: Vec<Op>) {
    let root = wheel.deadline_in(ms(100));
    let mut model = Model::default();
    let at = root.instant().unwrap();
    model.nodes.push(Node { at, real: Some(root), parent: None, cancelled: None, end: None });
    let mut tasks = [(); TASKS].map(spawn);
    let mut waiters: Vec<Waiter> = Vec::new();
    for op in ops {
        let now = Instant::now();
        let node = |i: usize| i % model.nodes.len();
        match op {
            Op::Child { of, after } => {
                let parent = node(of);
                let Some(deadline) = &model.nodes[parent].real else { continue };
                let (real, at) = match after {
                    Some(after) => (deadline.child_at(now + ms(after)), now + ms(after)),
                    None => (deadline.child(), now + Duration::from_secs(3600)),
                };
                let parent = Some(parent);
                model.nodes.push(Node { real: Some(real), parent, at, cancelled: None, end: None });
            }
            Op::Wait { on, limit, task, was_polled } => {
                let node = node(on);
                let Some(deadline) = model.nodes[node].real.clone() else { continue };
                let real = Box::pin(async move {
                    let end = match limit {
                        Some(limit) => deadline.run_within(ms(limit), pending::<()>()).await,
                        None => deadline.run(pending::<()>()).await,
                    };
                    end.unwrap_err()
                });
                let limit = limit.map_or(Limit::None, |limit| Limit::After(ms(limit)));
                waiters.push(Waiter { real, task, node, limit, was_polled });
                if was_polled {
                    poll(&model, &mut tasks, &mut waiters, task);
                }
            }
            Op::Poll { task } => {
                waiters.iter_mut().filter(|waiter| waiter.task == task).for_each(|it| it.was_polled = true);
                poll(&model, &mut tasks, &mut waiters, task);
            }
            Op::Extend { node: i, after } => {
                let i = node(i);
                let Some(deadline) = &model.nodes[i].real else { continue };
                assert_eq!(deadline.extend_to(now + ms(after)), !model.has_ended(i, now));
                if !model.has_ended(i, now) {
                    model.nodes[i].at = model.nodes[i].at.max(now + ms(after));
                }
            }
            Op::Cancel { node: i } => {
                let i = node(i);
                let Some(deadline) = &model.nodes[i].real else { continue };
                assert_eq!(deadline.cancel(), !model.has_ended(i, now));
                if !model.has_ended(i, now) {
                    model.nodes[i].cancelled = Some(now);
                }
            }
            // The first root stays, or soon nothing can be done.
            Op::DropNode { node: i } => {
                let i = node(i);
                if i > 0 {
                    model.nodes[i].real = None;
                }
            }
            Op::DropWaiter { waiter } => {
                if !waiters.is_empty() {
                    waiters.swap_remove(waiter % waiters.len());
                }
            }
            Op::MoveWaiter { waiter, task } => {
                if !waiters.is_empty() {
                    let waiter = waiter % waiters.len();
                    (waiters[waiter].task, waiters[waiter].was_polled) = (task, true);
                    poll(&model, &mut tasks, &mut waiters, task);
                }
            }
            Op::Sleep { ms: time } => sleep(ms(time)).await,
        }
        // Only the woken are polled: a lost wake-up is found here.
        for task in 0..TASKS {
            if tasks[task].is_woken() {
                poll(&model, &mut tasks, &mut waiters, task);
            }
        }
        let now = Instant::now();
        for waiter in waiters.iter().filter(|waiter| waiter.was_polled) {
            model.check(waiter, now, None);
        }
        for i in 0..model.nodes.len() {
            let Some(real) = &model.nodes[i].real else { continue };
            let why = if model.cancelled(i).is_some() { Ended::Cancelled } else { Ended::Passed };
            let seen = model.chain(i).find_map(|node| node.end);
            let end = seen.or_else(|| model.has_ended(i, now).then_some(why));
            assert_eq!((real.end(), real.instant()), (end, Some(model.passes(i))));
            model.nodes[i].end = end;
        }
    }
    drop((waiters, model));
    assert_eq!(wheel.pending(), 0);
}

fn on_paused_clock(ops: Vec<Op>, wheel: impl FnOnce() -> TimingWheel) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async { run(wheel(), ops).await });
}

proptest! {
    #[test]
    fn deadlines_end_as_the_model_says(ops in proptest::collection::vec(op(), 1..80)) {
        on_paused_clock(ops, TimingWheel::new);
    }

    #[test]
    fn deadlines_on_a_full_wheel_end_as_the_model_says(ops in proptest::collection::vec(op(), 1..80)) {
        on_paused_clock(ops, || TimingWheel::builder().max_pending(0).build().unwrap());
    }
}
