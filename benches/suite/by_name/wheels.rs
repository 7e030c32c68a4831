//! Where a runtime has 1, 100 and 1,000 wheels: timers by name, which are of one of them, and timers of all in turn.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use timingwheel::TimingWheel;
use tokio::task::JoinSet;

use super::build;
use super::sides::{ByName, FAR, Rig, Timers, Tokio, thread_cpu};
use crate::support::{
    Comparison, Findings, Scale, Table, Unit, connections_allowed, context_switches, cpu_time, number,
    quartiles, rounds,
};

const WORKERS: usize = 2;
const WHEELS: [usize; 3] = [1, 100, 1_000];
const DROPPED: usize = 100_000;
/// Each in a task that sleeps for a time of its own between these.
const FIRED: usize = 4_000;
const SLEEPS: std::ops::Range<u64> = 50_000..100_000;
/// Each takes a third of a second.
const ROUNDS: usize = 7;

pub(super) fn run(scale: Scale) -> Findings {
    build::without_test_util("by_name_wheels", scale, |scale| {
        let title = format!("With many wheels, {}", build::name());
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
    let rig = Rig::workers(WORKERS);
    // A connection has more files than a wheel.
    let more = connections_allowed(scale.of(count)) - 1;
    let in_turn = InTurn::new(&rig, more);
    // Each has what a wheel needs that has been used.
    let waiting: Vec<_> =
        in_turn.wheels.iter().map(|wheel| rig.runtime.spawn(wheel.sleep(FAR * 10))).collect();
    let earlier = rig.earlier();
    let before = in_turn.armed();
    let count_of_rounds = if scale.is_test() { 1 } else { ROUNDS };
    let found = rounds(
        count_of_rounds + 1,
        &mut [&mut || took(scale, &rig, ByName), &mut || took(scale, &rig, in_turn.clone()), &mut || {
            took(scale, &rig, Tokio)
        }],
    )
    .split_off(1);
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
fn took(scale: Scale, rig: &Rig, timers: impl Timers) -> [f64; 3] {
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

impl Timers for InTurn {
    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send + 'static {
        self.wheel().sleep(duration)
    }

    fn timeout<F: Future<Output = ()> + Send + 'static>(
        &self,
        duration: Duration,
        future: F,
    ) -> impl Future<Output = Result<(), impl Sized>> + Send + 'static {
        self.wheel().timeout(duration, future)
    }
}
