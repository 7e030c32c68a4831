//! Jobs under keys, beside what a user of tokio writes by hand: a mutex round a map of tasks, each of which sleeps first.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use timingwheel::TimingWheel;
use timingwheel_jobs::{JobState, Jobs};
use tokio::runtime::{Builder, Runtime};
use tokio::task::coop::unconstrained;
use tokio::task::{AbortHandle, yield_now};

use crate::support::{Case, Scale, Table, compare};

pub(crate) fn cases() -> Vec<Case> {
    vec![Case::new(
        "jobs_keys",
        "What does it cost to add and remove a job under a key, beside a map of tasks that sleep?",
        |scale| table(scale).into(),
    )]
}

/// How many others are pending, and the names of the two rows.
const ROWS: [(usize, [&str; 2]); 2] = [
    (1_000, ["one more, 1,000 pending", "one of 1,000 replaced"]),
    (200_000, ["one more, 200,000 pending", "one of 200,000 replaced"]),
];
/// What the time may be beside the rival's.
const TARGET: f64 = 0.45;
const OPERATIONS: usize = 100_000;
/// After so many the other tasks of the worker run: new ones come to their sleeps, and aborted ones are dropped.
const IN_A_ROW: usize = 32;

fn far() -> Duration {
    Duration::from_millis(fastrand::u64(1_000_000..2_000_000))
}

/// What runs later, under keys.
trait Later: Clone + Send + 'static {
    fn add(&self, key: usize);

    /// Takes out what has not begun.
    fn remove(&self, key: usize);

    /// How many there are, and how many timers have been armed for them so far.
    fn pending_and_armed(&self) -> (usize, usize);
}

#[derive(Clone)]
struct Ours {
    wheel: TimingWheel,
    jobs: Jobs<usize>,
}

impl Later for Ours {
    fn add(&self, key: usize) {
        self.jobs.try_run_after(key, far(), async {}).expect("there is no bound");
    }

    fn remove(&self, key: usize) {
        assert_eq!(self.jobs.remove(&key).map(|found| found.state), Some(JobState::Pending));
    }

    fn pending_and_armed(&self) -> (usize, usize) {
        let stats = self.wheel.stats();
        assert_eq!((stats.pending, stats.fired), (self.jobs.len(), 0));
        (stats.pending, usize::try_from(stats.armed).expect("few enough"))
    }
}

#[derive(Clone, Default)]
struct ByHand(Arc<Mutex<HashMap<usize, AbortHandle>>>);

/// How many tasks by hand have come to their sleeps. One worker runs them, so a plain load and a plain store do.
static ASLEEP: AtomicUsize = AtomicUsize::new(0);

impl Later for ByHand {
    fn add(&self, key: usize) {
        let delay = far();
        let task = tokio::spawn(async move {
            ASLEEP.store(ASLEEP.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            tokio::time::sleep(delay).await;
        });
        self.0.lock().expect("no panic under it").insert(key, task.abort_handle());
    }

    fn remove(&self, key: usize) {
        let task = self.0.lock().expect("no panic under it").remove(&key).expect("it was added");
        assert!(!task.is_finished());
        task.abort();
    }

    fn pending_and_armed(&self) -> (usize, usize) {
        (self.0.lock().expect("no panic under it").len(), ASLEEP.load(Ordering::Relaxed))
    }
}

/// What is done with `IN_A_ROW` keys of so many that are pending, all of it in one task.
#[derive(Clone, Copy)]
enum Work {
    /// Adds others, and removes them when their timers are armed.
    OneMore,
    /// Removes random ones, and adds them anew.
    Replace,
}

fn table(scale: Scale) -> Table {
    // One for each side: in a worker that both share, what the one leaves in the allocator's lists made the other two to four
    // times as slow.
    let [runtime, others] = [(); 2]
        .map(|()| Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime"));
    let wheel = runtime.block_on(async { TimingWheel::new() });
    let header = ["add and remove", "timingwheel_jobs::Jobs", "by hand", "ours / by hand", "target"];
    let mut table = Table::new("Jobs under keys beside a map of tasks that sleep", header)
        .about("jobs")
        .ratio("ours / by hand", "timingwheel_jobs::Jobs", "by hand");
    let (ours, by_hand) = (Ours { jobs: Jobs::new(&wheel), wheel }, ByHand::default());
    let mut before = 0;
    for (pending, names) in ROWS {
        let pending = scale.of(pending);
        let more = before..pending.max(before);
        before = more.end;
        fill(&runtime, &ours, more.clone());
        fill(&others, &by_hand, more);
        for (name, work) in names.into_iter().zip([Work::OneMore, Work::Replace]) {
            let operations = scale.of(OPERATIONS);
            let found = compare(
                scale,
                name,
                operations,
                || repeat(&runtime, &ours, work, pending, operations),
                || repeat(&others, &by_hand, work, pending, operations),
            );
            table = table.row([found.cells(), vec![found.target(Some(TARGET))]].concat());
        }
    }
    table.note(format!(
        "By hand that is a mutex round std's map of abort handles, of tasks that sleep with tokio's timer and then do the \
         work; to remove one aborts its task. Each side has a runtime of its own. One task adds and removes {IN_A_ROW} at a \
         time. Then it lets the other tasks of its worker run, so that what was spawned comes to its sleep, and what was \
         aborted is dropped."
    ))
}

fn fill(runtime: &Runtime, later: &impl Later, keys: std::ops::Range<usize>) {
    let (before, filling, all, added) = (later.pending_and_armed(), later.clone(), keys.end, keys.len());
    let armed = before.1 + added;
    let task = async move {
        for key in keys {
            filling.add(key);
            if key % IN_A_ROW == 0 {
                yield_now().await;
            }
        }
        // The worker may come back here before it has run the last of them.
        for _ in 0..IN_A_ROW {
            yield_now().await;
        }
    };
    runtime.block_on(runtime.spawn(unconstrained(task))).expect("it does not panic");
    let after = later.pending_and_armed();
    // A task of the row before may have come to its sleep only now.
    assert!(after.0 == all && after.1 >= armed, "each has its timer: {after:?}, wanted {:?}", (all, armed));
}

/// The time that so many operations take the worker.
fn repeat<L: Later>(runtime: &Runtime, later: &L, work: Work, pending: usize, operations: usize) -> Duration {
    // In a test there are few.
    let in_a_row = IN_A_ROW.min(pending / 4).max(1);
    let rows = operations.div_ceil(in_a_row);
    let before = later.pending_and_armed();
    let working = later.clone();
    let task = runtime.spawn(unconstrained(async move {
        let start = std::time::Instant::now();
        for row in 0..rows {
            match work {
                Work::OneMore => {
                    let others = pending + row * in_a_row..pending + (row + 1) * in_a_row;
                    others.clone().for_each(|key| working.add(key));
                    yield_now().await;
                    others.for_each(|key| working.remove(key));
                }
                Work::Replace => {
                    for _ in 0..in_a_row {
                        let key = fastrand::usize(..pending);
                        working.remove(key);
                        working.add(key);
                    }
                }
            }
            yield_now().await;
        }
        start.elapsed()
    }));
    let taken = runtime.block_on(task).expect("it does not panic");
    let after = later.pending_and_armed();
    assert_eq!(after.0, before.0, "as many are pending as were");
    let armed = after.1 - before.1;
    // A key that was chosen twice in a row of them is removed before its task has run.
    assert!(2 * armed > operations, "only {armed} of {operations} timers were armed");
    // So many were worked off, rounded up to whole rows.
    taken.mul_f64(operations as f64 / (rows * in_a_row) as f64)
}
