//! What users call, who have changed `use tokio::time` to `use timingwheel::time`: its CPU time, divided by tokio's.
//!
//! Beside it stands the same by a wheel's handle. All sides share a runtime, run in turn in each round, and do their work
//! in a task. Each case proves by the wheel's own counts that its timers reached the wheel, or did not where the future
//! was ready.

mod build;
#[cfg(feature = "test-util")]
mod paused;

use std::future::{pending, poll_fn, ready};
use std::hint::black_box;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use build::{WITH_TEST_UTIL, build_name, without_test_util};
use timingwheel::{TimingWheel, time};
use tokio::runtime::Builder;
use tokio::task::coop::unconstrained;
use tokio::task::{JoinHandle, JoinSet, yield_now};

use crate::against_tokio::targets;
use crate::sides::{FAR, Rig, Timeouts, Timer, Tokio, assert_pending, multi_thread};
use crate::support::{
    Case, Comparison, Duel, Findings, Scale, Table, Unit, connections_allowed, context_switches, cpu_time,
    number, quartiles, thread_cpu_time, warm_rounds,
};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("by_name", "What does a timeout cost by name, in a server's build?", timeouts),
        Case::new(
            "by_name_tasks",
            "What does a timeout cost by name in 64 tasks, on more and more workers?",
            tasks,
        ),
        #[cfg(feature = "test-util")]
        Case::new("by_name_test_util", "And in a test's build, which can pause the clock?", paused::run),
        Case::new("by_name_wheels", "What does a timer cost where the process has very many wheels?", wheels),
    ]
}

// The sides of a comparison, on one runtime: timers by name, by the handle of the runtime's own wheel, and tokio's.

/// Of timers that are pending meanwhile. Longer than all rounds take, and shorter than `FAR`.
const EARLIER: Duration = Duration::from_secs(20);

#[derive(Clone)]
struct ByName;

impl Timer for ByName {
    type Sleep = time::Sleep;

    fn sleep(&self, duration: Duration) -> Self::Sleep {
        time::sleep(duration)
    }
}

impl Timeouts for ByName {
    type Elapsed = time::error::Elapsed;

    fn timeout<F: Future<Output: Send> + Send>(
        &self,
        limit: Duration,
        future: F,
    ) -> impl Future<Output = Result<F::Output, Self::Elapsed>> + Send {
        time::timeout(limit, future)
    }
}

/// What a side is put under.
trait Load {
    /// Does it once, and returns what it took, in the same order each time.
    fn run(&self, rig: &Rig, timers: impl Timeouts) -> Vec<f64>;

    /// How many timers that arms.
    fn armed(&self) -> usize;
}

/// What a load found in a round.
#[derive(Debug)]
struct Round {
    by_name: Vec<f64>,
    by_handle: Vec<f64>,
    tokio: Vec<f64>,
}

impl Rig {
    fn on_workers(workers: usize) -> Self {
        Self::by_name(multi_thread(workers))
    }

    fn on_one_thread(builder: &mut Builder) -> Self {
        Self::by_name(builder.enable_all().build().expect("a runtime"))
    }

    /// Puts all sides under `load`, in turn in each round.
    ///
    /// # Panics
    /// If the timers by name and by handle did not reach the wheel.
    fn rounds(&self, scale: Scale, load: &impl Load) -> Vec<Round> {
        let before = self.wheel.stats();
        let mut sides: [&mut dyn FnMut() -> Vec<f64>; 3] =
            [&mut || load.run(self, ByName), &mut || load.run(self, self.wheel.clone()), &mut || {
                load.run(self, Tokio)
            }];
        let found = warm_rounds(scale.rounds(), &mut sides);
        let armed = self.wheel.stats().armed - before.armed;
        let expected = 2 * load.armed() * (scale.rounds() + 1);
        assert_eq!(armed, expected as u64, "timers that reached the wheel");
        found
            .into_iter()
            .map(|round| {
                let [by_name, by_handle, tokio] = <[_; 3]>::try_from(round).expect("as many as sides");
                Round { by_name, by_handle, tokio }
            })
            .collect()
    }

    /// As [`rounds`](Self::rounds), beside [earlier](Self::earlier) timers.
    fn rounds_beside_earlier(&self, scale: Scale, load: &impl Load) -> Vec<Round> {
        let earlier = self.earlier();
        let found = self.rounds(scale, load);
        assert!(!earlier.is_finished(), "the rounds took {EARLIER:?}: the earlier timers have fired");
        earlier.abort();
        found
    }

    /// Has both sides wait for a timer that is due before those of a load, as is one in every server. Otherwise each of a
    /// load's would be the earliest, and tokio would write to an eventfd for each while its worker is busy.
    fn earlier(&self) -> JoinHandle<()> {
        /// Until the worker has looked at its sockets.
        const SEEN: Duration = Duration::from_millis(5);
        let ours = self.wheel.clone();
        let earlier = self.runtime.spawn(async move {
            tokio::join!(ours.sleep(EARLIER), tokio::time::sleep(EARLIER));
        });
        self.runtime.block_on(async { tokio::time::sleep(SEEN).await });
        earlier
    }

    /// Does `work` in a task, with its waker, and without a budget that would cut it short.
    fn in_task<R: Send + 'static>(&self, mut work: impl FnMut(&mut Context<'_>) -> R + Send + 'static) -> R {
        let task = unconstrained(poll_fn(move |cx| Poll::Ready(work(cx))));
        self.runtime.block_on(async { tokio::spawn(task).await.expect("the task does not panic") })
    }
}

/// The CPU time that `work` takes on this thread, in nanoseconds.
fn thread_cpu(work: impl FnOnce()) -> f64 {
    let before = thread_cpu_time();
    work();
    (thread_cpu_time() - before).as_nanos() as f64
}

// Rows of tables from what rounds found.

/// One thing measured.
struct Measured<'a> {
    what: &'a str,
    unit: Unit,
    rounds: &'a [Round],
    /// Its place in what the load returns.
    place: usize,
    /// What the ratio by name shall be at most. If it is given, that row stands in the report's first table.
    limit: Option<f64>,
}

/// All that was measured on one runtime.
struct Rows {
    runtime: &'static str,
    targets: Table,
    table: Table,
}

impl Rows {
    /// `build` says whether tokio has `test-util`.
    fn new(what: &str, runtime: &'static str, build: &str) -> Self {
        let title = format!("{what} by name and by handle, {runtime}, {build}");
        let header = ["what", "ours", "tokio", "ratio", "quartiles"];
        let table = Table::new(&title, header).ratio_within("ratio", "`ours` divided by `tokio`");
        Self {
            runtime,
            targets: targets().note(
                "By name: `timingwheel::time` in place of `tokio::time`, in CPU time. Workers are those of a multi-thread \
                 runtime; 1 thread is a current-thread one. tokio has its `test-util` only where the clock is paused.",
            ),
            table: if build == WITH_TEST_UTIL { table.about("with `test-util`") } else { table },
        }
    }

    /// Says what was measured. Once for all tables of a case: in the last.
    fn explain(self, what: &str) -> Self {
        let table = self.table.note(what).note("Quartiles: between them lies half of the ratios.");
        Self { table, ..self }
    }

    fn add(mut self, measured: &Measured<'_>) -> Self {
        let Measured { what, unit, rounds, place, limit } = *measured;
        // Only what a changed `use` does has a target.
        for (how, limit) in [("by name", limit), ("by handle", None)] {
            let ours =
                |round: &Round| if how == "by name" { round.by_name[place] } else { round.by_handle[place] };
            let pairs: Vec<_> = rounds.iter().map(|round| (ours(round), round.tokio[place])).collect();
            let found = Comparison::of("", unit, &pairs);
            let [lower, _, upper] = quartiles(pairs.iter().map(|(ours, tokio)| ours / tokio));
            let mut cells = found.cells();
            cells[0] = format!("{what}, {how}");
            cells.push(format!("{} to {}", number(lower), number(upper)));
            self.table = self.table.row(cells);
            if limit.is_some() {
                let mut cells = found.cells();
                cells[0] = format!("{how}, {}: {what}", self.runtime);
                cells.push(found.target(limit));
                self.targets = self.targets.row(cells);
            } else {
                // The losses are counted once: those in the first table there.
                let what = format!("{what}, {how}, {}", self.runtime);
                let duel = Duel::new(what, unit, found.ours, ("tokio", found.rival));
                self.table = self.table.duel(duel.with_pairs(&found));
            }
        }
        self
    }
}

/// The first table once, then that of each runtime.
impl FromIterator<Rows> for Findings {
    fn from_iter<I: IntoIterator<Item = Rows>>(all: I) -> Self {
        let (mut first, mut tables) = (targets(), Vec::new());
        for Rows { targets, table, .. } in all {
            first.absorb(&targets);
            tables.push(table);
        }
        tables.insert(0, first);
        Self { tables }
    }
}

// A timeout round a future that is ready, one round a future that is pending, and very many armed and dropped.

const OPERATIONS: usize = 100_000;
const EXPLAINED: &str = "The CPU time of the task's thread. Ready: a timeout of 30 s round a future that is ready \
                                    at once, on the stack. Pending once: round one that is ready when it is polled again. \
                                    Armed: of 100,000 in boxes, round a future that stays pending; dropped: those. An \
                                    earlier timer is pending on both sides.";

fn timeouts(scale: Scale) -> Findings {
    without_test_util("by_name", scale, |scale| {
        let multi_thread = [Some(0.8), Some(0.75), Some(0.85), Some(0.9)];
        let current_thread = [Some(0.8), Some(0.9), Some(0.9), Some(0.9)];
        Findings::from_iter([
            measure_timeouts(scale, "1 worker", &Rig::on_workers(1), multi_thread),
            measure_timeouts(
                scale,
                "1 thread",
                &Rig::on_one_thread(&mut Builder::new_current_thread()),
                current_thread,
            )
            .explain(EXPLAINED),
        ])
    })
}

/// `limits` are those of a timeout round a future that is ready, of one round a future that is pending once, of many that
/// are armed, and of those dropped.
fn measure_timeouts(scale: Scale, runtime: &'static str, rig: &Rig, limits: [Option<f64>; 4]) -> Rows {
    let [ready, once, armed, dropped] = limits;
    let mut rows = Rows::new("Timeouts", runtime, build_name());
    for (operation, parts) in [
        (Operation::Ready, &[("ready", ready)][..]),
        (Operation::PendingOnce, &[("pending once", once)]),
        (Operation::ManyInBoxes, &[("armed", armed), ("dropped", dropped)]),
    ] {
        eprintln!("{runtime}: {operation:?}");
        let rounds = rig.rounds_beside_earlier(scale, &Repeated { operation, count: scale.of(OPERATIONS) });
        for (place, &(what, limit)) in parts.iter().enumerate() {
            rows = rows.add(&Measured { what, unit: Unit::Nanos, rounds: &rounds, place, limit });
        }
    }
    rows
}

#[derive(Clone, Copy, Debug)]
enum Operation {
    Ready,
    PendingOnce,
    ManyInBoxes,
}

#[derive(Clone, Copy)]
struct Repeated {
    operation: Operation,
    count: usize,
}

impl Load for Repeated {
    fn run(&self, rig: &Rig, timers: impl Timeouts) -> Vec<f64> {
        let Self { operation, count } = *self;
        let took = rig.in_task(move |cx| match operation {
            Operation::Ready => vec![thread_cpu(|| {
                for _ in 0..count {
                    assert_ready(pin!(timers.timeout(black_box(FAR), ready(()))), cx);
                }
            })],
            Operation::PendingOnce => vec![thread_cpu(|| {
                for _ in 0..count {
                    let mut timeout = pin!(timers.timeout(black_box(FAR), PendingOnce::default()));
                    assert_pending(timeout.as_mut(), cx);
                    assert_ready(timeout, cx);
                }
            })],
            Operation::ManyInBoxes => {
                let mut all = Vec::with_capacity(count);
                let armed = thread_cpu(|| {
                    for _ in 0..count {
                        let mut timeout = Box::pin(timers.timeout(black_box(FAR), pending::<()>()));
                        assert_pending(timeout.as_mut(), cx);
                        all.push(timeout);
                    }
                });
                vec![armed, thread_cpu(|| drop(all))]
            }
        });
        took.into_iter().map(|nanos| nanos / count as f64).collect()
    }

    fn armed(&self) -> usize {
        match self.operation {
            Operation::Ready => 0,
            Operation::PendingOnce | Operation::ManyInBoxes => self.count,
        }
    }
}

/// Ready at the second poll. It wakes nobody: it is polled by hand.
#[derive(Default)]
struct PendingOnce {
    was_polled: bool,
}

impl Future for PendingOnce {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.was_polled, true) { Poll::Ready(()) } else { Poll::Pending }
    }
}

fn assert_ready<E>(timeout: Pin<&mut impl Future<Output = Result<(), E>>>, cx: &mut Context<'_>) {
    assert!(matches!(timeout.poll(cx), Poll::Ready(Ok(()))), "the future was ready, and its time not up");
}

// Timeouts round a future that gives way once, in 64 tasks on 1, 2 and 8 workers.

const TASKS: usize = 64;
const EACH: usize = 4_000;

fn tasks(scale: Scale) -> Findings {
    without_test_util("by_name_tasks", scale, |scale| {
        Findings::from_iter([
            measure_tasks(scale, 1, "1 worker", 0.8),
            measure_tasks(scale, 2, "2 workers", 0.4),
            measure_tasks(scale, 8, "8 workers", 0.45).explain(
                "64 tasks: the CPU time of the process for each `timeout(30 s, yield_now())`, and context switches for \
                 1,000. Workers are in each other's way only while they run at once, so the ratio of 2 workers is \
                 nearer to that of 1 on a machine that does something else too.",
            ),
        ])
    })
}

fn measure_tasks(scale: Scale, workers: usize, runtime: &'static str, limit: f64) -> Rows {
    eprintln!("{TASKS} tasks, {runtime}");
    let rounds = Rig::on_workers(workers).rounds_beside_earlier(scale, &Tasks { each: scale.of(EACH) });
    let measured = |what, unit, place, limit| Measured { what, unit, rounds: &rounds, place, limit };
    Rows::new("Tasks", runtime, build_name())
        .add(&measured("64 tasks", Unit::Nanos, 0, Some(limit)))
        .add(&measured("switches for 1,000", Unit::Count, 1, None))
}

struct Tasks {
    each: usize,
}

impl Load for Tasks {
    fn run(&self, rig: &Rig, timers: impl Timeouts) -> Vec<f64> {
        let each = self.each;
        let look = || (cpu_time(), context_switches());
        let before = look();
        rig.runtime.block_on(async {
            let mut tasks = JoinSet::new();
            for _ in 0..TASKS {
                let timers = timers.clone();
                tasks.spawn(async move {
                    for _ in 0..each {
                        assert!(timers.timeout(FAR, yield_now()).await.is_ok(), "time enough");
                    }
                });
            }
            tasks.join_all().await;
        });
        let after = look();
        let done = (TASKS * each) as f64;
        vec![(after.0 - before.0).as_nanos() as f64 / done, (after.1 - before.1) as f64 * 1e3 / done]
    }

    fn armed(&self) -> usize {
        TASKS * self.each
    }
}

// Where a runtime has 1, 100 and 1,000 wheels: timers by name, which are of one of them, and timers of all in turn.

const WORKERS: usize = 2;
const WHEELS: [usize; 3] = [1, 100, 1_000];
const DROPPED: usize = 100_000;
/// Each in a task that sleeps for a time of its own between these.
const FIRED: usize = 4_000;
const SLEEPS: std::ops::Range<u64> = 50_000..100_000;
/// Each takes a third of a second.
const ROUNDS: usize = 7;

fn wheels(scale: Scale) -> Findings {
    without_test_util("by_name_wheels", scale, |scale| {
        let title = format!("With many wheels, {}", build_name());
        let header = ["what", "ours", "tokio", "ratio", "quartiles"];
        let table = Table::new(&title, header).ratio("ratio", "ours", "tokio").note(
            "By name: timers of the runtime's own wheel, beside which the others have a timer each that waits. In turn: \
             timers of all wheels. Dropped: the CPU time of the thread for each sleep of 30 s that is made, polled and \
             dropped. Fired: the CPU time of the process for each of 4,000 tasks that sleep for 50 to 100 ms, and \
             context switches for 1,000. Quartiles: between them lies half of the ratios.",
        );
        WHEELS.into_iter().fold(table, |table, count| add(scale, count, table)).into()
    })
}

fn add(scale: Scale, count: usize, table: Table) -> Table {
    eprintln!("{count} wheels");
    let rig = Rig::on_workers(WORKERS);
    // A connection has more files than a wheel.
    let more = connections_allowed(scale.of(count)) - 1;
    let in_turn = InTurn::new(&rig, more);
    // Each has what a wheel needs that has been used.
    let waiting: Vec<_> =
        in_turn.wheels.iter().map(|wheel| rig.runtime.spawn(wheel.sleep(FAR * 10))).collect();
    let earlier = rig.earlier();
    let before = in_turn.armed();
    let count_of_rounds = if scale.is_test() { 1 } else { ROUNDS };
    let found = warm_rounds(
        count_of_rounds,
        &mut [&mut || took(scale, &rig, ByName), &mut || took(scale, &rig, in_turn.clone()), &mut || {
            took(scale, &rig, Tokio)
        }],
    );
    let expected = 2 * (scale.of(DROPPED) + scale.of(FIRED)) * (count_of_rounds + 1);
    let armed = in_turn.armed() - before;
    // One in a hundred may be missing: a task that loses its core between making a timer and polling it may find it due.
    assert!(armed * 100 >= expected as u64 * 99, "only {armed} of {expected} timers reached a wheel");
    assert!(!earlier.is_finished(), "the rounds took too long: the earlier timers have fired");
    waiting.into_iter().chain([earlier]).for_each(|waiting| waiting.abort());

    let wheels = if more == 0 { "1 wheel".into() } else { format!("{} wheels", number((more + 1) as f64)) };
    let mut rows = Vec::new();
    for (place, (what, unit)) in
        [("dropped", Unit::Nanos), ("fired", Unit::Nanos), ("switches", Unit::Count)].into_iter().enumerate()
    {
        for (how, side) in [("by name", 0), ("in turn", 1)] {
            let pairs: Vec<_> = found.iter().map(|sides| (sides[side][place], sides[2][place])).collect();
            let mut cells = Comparison::of("", unit, &pairs).cells();
            cells[0] = format!("{what}, {how}, {wheels}");
            let [lower, _, upper] = quartiles(pairs.iter().map(|(ours, tokio)| ours / tokio));
            cells.push(format!("{} to {}", number(lower), number(upper)));
            rows.push(cells);
        }
    }
    rows.into_iter().fold(table, Table::row)
}

/// What a side took: CPU for each that is dropped, and for each that fires, and context switches for 1,000 of the latter.
fn took(scale: Scale, rig: &Rig, timers: impl Timer<Sleep: Future<Output = ()>>) -> [f64; 3] {
    let (dropped, fired) = (scale.of(DROPPED), scale.of(FIRED));
    let of_dropping = timers.clone();
    let cpu = rig.in_task(move |cx| {
        thread_cpu(|| {
            for _ in 0..dropped {
                assert!(pin!(of_dropping.sleep(FAR)).poll(cx).is_pending(), "the timer was not registered");
            }
        })
    });
    let look = || (cpu_time(), context_switches());
    let before = look();
    rig.runtime.block_on(async {
        let mut tasks = JoinSet::new();
        for n in 0..fired as u64 {
            let span = SLEEPS.end - SLEEPS.start;
            // Over all of the span, whatever the scale.
            let sleep = Duration::from_micros(SLEEPS.start + n * span / fired as u64);
            let timers = timers.clone();
            tasks.spawn(async move { timers.sleep(sleep).await });
        }
        tasks.join_all().await;
    });
    let after = look();
    let for_each = |value: f64| value / fired as f64;
    let switches = (after.1 - before.1) as f64 * 1e3;
    [cpu / dropped as f64, for_each((after.0 - before.0).as_nanos() as f64), for_each(switches)]
}

/// All wheels of a runtime, of which each makes a timer in turn.
#[derive(Clone)]
struct InTurn {
    wheels: Arc<[TimingWheel]>,
    next: Arc<AtomicUsize>,
}

impl InTurn {
    /// The runtime's own, and as many `more`.
    fn new(rig: &Rig, more: usize) -> Self {
        let _within = rig.runtime.enter();
        let wheels =
            std::iter::once(rig.wheel.clone()).chain((0..more).map(|_| TimingWheel::new())).collect();
        Self { wheels, next: Arc::default() }
    }

    fn wheel(&self) -> &TimingWheel {
        // If two threads take the same, that hurts nobody, and a locked instruction would be counted.
        let next = self.next.load(Ordering::Relaxed);
        self.next.store(if next + 1 == self.wheels.len() { 0 } else { next + 1 }, Ordering::Relaxed);
        &self.wheels[next]
    }

    fn armed(&self) -> u64 {
        self.wheels.iter().map(|wheel| wheel.stats().armed).sum()
    }
}

impl Timer for InTurn {
    type Sleep = timingwheel::Sleep;

    fn sleep(&self, duration: Duration) -> Self::Sleep {
        self.wheel().sleep(duration)
    }
}
