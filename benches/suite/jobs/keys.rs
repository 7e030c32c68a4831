//! Jobs and sleeps that come and go, alone and among a million.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use timingwheel::{Sleep, Stats, TimingWheel};
use timingwheel_jobs::{JobState, Jobs, JobsExt};
use tokio::runtime::{Builder, Runtime};
use tokio::task::coop::unconstrained;

use super::by_hand;
use crate::support::{Comparison, Findings, Scale, Table, compare, time};

const PENDING: usize = 1_000_000;
const OPERATIONS: usize = 300_000;

/// Jobs and sleeps live in one runtime, each in a wheel of their own.
struct Rig {
    runtime: Runtime,
    of_jobs: TimingWheel,
    of_sleeps: TimingWheel,
}

impl Rig {
    fn new() -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        let wheel = || runtime.block_on(async { TimingWheel::new() });
        let (of_jobs, of_sleeps) = (wheel(), wheel());
        Self { runtime, of_jobs, of_sleeps }
    }

    /// The time that `work` takes within the runtime, with the waker of a task.
    fn time(&self, mut work: impl FnMut(&mut Context<'_>)) -> Duration {
        self.runtime.block_on(unconstrained(poll_fn(|cx| Poll::Ready(time(|| work(cx))))))
    }

    fn stats(&self) -> [Stats; 2] {
        [self.of_jobs.stats(), self.of_sleeps.stats()]
    }

    /// Checks that both wheels saw as many timers as they should have.
    fn assert_armed(&self, before: [Stats; 2], at_least: usize) {
        for (before, after) in before.into_iter().zip(self.stats()) {
            let armed = after.armed - before.armed;
            assert!(armed >= at_least as u64, "only {armed} of {at_least} timers reached the wheel");
            assert_eq!(after.fired, 0, "none is due");
        }
    }
}

pub(super) fn run(scale: Scale) -> Findings {
    let rig = Rig::new();
    let jobs = Jobs::new(&rig.of_jobs);
    let mut sleeps = Vec::new();
    let mut comparisons = vec![by_handle(scale, &rig), come_and_go(scale, &rig, &jobs, "one key, alone")];
    let of_map = map_comes_and_goes(scale, &rig);
    comparisons.push(handles_come_and_go(scale, &rig));
    let before = rig.stats();
    let (add, remove) = (|key| add(&jobs, key), |key| jobs.remove(&key).is_some());
    comparisons.push(all_come_and_go(scale, &rig, "a million, all added, then all removed", add, remove));
    rig.assert_armed(before, scale.of(PENDING));
    rig.time(|cx| fill(&rig, &jobs, &mut sleeps, scale.of(PENDING), cx));
    comparisons.push(come_and_go(scale, &rig, &jobs, "one key more, among a million"));
    comparisons.push(replace(scale, &rig, &jobs, &mut sleeps));
    let moved = reset(scale, &rig, &jobs, &mut sleeps);
    let header = ["add and remove", "job", "timer", "job / timer"];
    let table = Table::new("Jobs beside the timers that they are made of", header)
        .ratio_within("job / timer", "`job` divided by `timer`");
    let table = comparisons.iter().chain([&moved, &of_map]).map(Comparison::cells).fold(table, Table::row);
    Findings { tables: vec![by_hand::table(scale), table], charts: Vec::new() }
}

pub(super) fn far() -> Duration {
    Duration::from_millis(fastrand::u64(1_000_000..2_000_000))
}

#[track_caller]
fn assert_pending(sleep: Pin<&mut Sleep>, cx: &mut Context<'_>) {
    assert!(sleep.poll(cx).is_pending(), "the timer was not registered");
}

fn fill(rig: &Rig, jobs: &Jobs<usize>, sleeps: &mut Vec<Sleep>, pending: usize, cx: &mut Context<'_>) {
    for key in 0..pending {
        add(jobs, key);
        let mut sleep = rig.of_sleeps.sleep(far());
        assert_pending(Pin::new(&mut sleep), cx);
        sleeps.push(sleep);
    }
    assert_eq!((jobs.len(), rig.of_jobs.pending(), rig.of_sleeps.pending()), (pending, pending, pending));
}

fn by_handle(scale: Scale, rig: &Rig) -> Comparison {
    let (operations, before) = (scale.of(OPERATIONS), rig.stats());
    let comparison = compare(
        scale,
        "by its handle",
        operations,
        || {
            rig.time(|_| {
                for _ in 0..operations {
                    assert!(rig.of_jobs.run_after(far(), async {}).cancel());
                }
            })
        },
        || rig.time(|cx| (0..operations).for_each(|_| assert_pending(pin!(rig.of_sleeps.sleep(far())), cx))),
    );
    rig.assert_armed(before, operations);
    comparison
}

fn come_and_go(scale: Scale, rig: &Rig, jobs: &Jobs<usize>, name: &'static str) -> Comparison {
    let (operations, before) = (scale.of(OPERATIONS), rig.stats());
    let comparison = compare(
        scale,
        name,
        operations,
        || {
            rig.time(|_| {
                for key in PENDING..PENDING + operations {
                    add(jobs, key);
                    let found = jobs.remove(&key).expect("it was added");
                    assert_eq!(found.state, JobState::Pending);
                }
            })
        },
        || rig.time(|cx| (0..operations).for_each(|_| assert_pending(pin!(rig.of_sleeps.sleep(far())), cx))),
    );
    rig.assert_armed(before, operations);
    comparison
}

fn add(jobs: &Jobs<usize>, key: usize) {
    jobs.try_run_after(key, far(), async {}).expect("there is no bound");
}

fn all_come_and_go(
    scale: Scale,
    rig: &Rig,
    name: &'static str,
    mut add: impl FnMut(usize),
    mut remove: impl FnMut(usize) -> bool,
) -> Comparison {
    let pending = scale.of(PENDING);
    compare(
        scale,
        name,
        pending,
        || {
            rig.time(|_| {
                (0..pending).for_each(&mut add);
                assert!((0..pending).all(&mut remove));
            })
        },
        || {
            rig.time(|cx| {
                let mut sleeps = Vec::new();
                for _ in 0..pending {
                    let mut sleep = rig.of_sleeps.sleep(far());
                    assert_pending(Pin::new(&mut sleep), cx);
                    sleeps.push(sleep);
                }
                assert_eq!(rig.of_sleeps.pending(), pending);
            })
        },
    )
}

/// What a million jobs cost without keys.
fn handles_come_and_go(scale: Scale, rig: &Rig) -> Comparison {
    let before = rig.stats();
    let handles = RefCell::new(VecDeque::new());
    let add = |_| handles.borrow_mut().push_back(rig.of_jobs.run_after(far(), async {}));
    let comparison =
        all_come_and_go(scale, rig, "a million by handles, all made, then all cancelled", add, |_| {
            handles.borrow_mut().pop_front().is_some_and(|job| job.cancel())
        });
    rig.assert_armed(before, scale.of(PENDING));
    comparison
}

/// What a million keys cost without any timer: in std's map, of boxes as large as a job's.
fn map_comes_and_goes(scale: Scale, rig: &Rig) -> Comparison {
    let map = RefCell::new(HashMap::new());
    let add = |key| drop(map.borrow_mut().insert(key, Box::new([key; 16])));
    all_come_and_go(scale, rig, "a million boxes in std's map, without timers", add, |key| {
        map.borrow_mut().remove(&key).is_some()
    })
}

fn replace(scale: Scale, rig: &Rig, jobs: &Jobs<usize>, sleeps: &mut [Sleep]) -> Comparison {
    let (operations, before) = (scale.of(OPERATIONS), rig.stats());
    let pending = sleeps.len();
    let comparison = compare(
        scale,
        "a random one of a million, for a new one",
        operations,
        || {
            rig.time(|_| {
                for _ in 0..operations {
                    let key = fastrand::usize(..pending);
                    assert!(jobs.remove(&key).is_some());
                    add(jobs, key);
                }
            })
        },
        || {
            rig.time(|cx| {
                for _ in 0..operations {
                    let place = &mut sleeps[fastrand::usize(..pending)];
                    *place = rig.of_sleeps.sleep(far());
                    assert_pending(Pin::new(place), cx);
                }
            })
        },
    );
    rig.assert_armed(before, operations);
    assert_eq!((jobs.len(), rig.of_jobs.pending()), (pending, pending));
    comparison
}

fn reset(scale: Scale, rig: &Rig, jobs: &Jobs<usize>, sleeps: &mut [Sleep]) -> Comparison {
    let (operations, pending) = (scale.of(OPERATIONS), sleeps.len());
    compare(
        scale,
        "a random one of a million, moved",
        operations,
        || {
            rig.time(|_| {
                for _ in 0..operations {
                    assert!(jobs.reset_after(&fastrand::usize(..pending), far()));
                }
            })
        },
        || {
            rig.time(|_| {
                for _ in 0..operations {
                    Pin::new(&mut sleeps[fastrand::usize(..pending)]).reset_after(far());
                }
            })
        },
    )
}
