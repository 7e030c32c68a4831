//! The whole wheel on the real clock: what the process takes while connections are idle.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use timingwheel::{Sleep, TimingWheel, Tolerance};
use tokio::runtime::{Builder, Runtime};

use super::connections::Connections;
use super::{EXACT, SHARE, SIDES, TARGET, TOLERANT};
use crate::support::{Comparison, Findings, Scale, Table, Unit, cpu_time, median, number, rounds};

const CONNECTIONS: usize = 100_000;
const PERIOD: Duration = Duration::from_secs(6);
/// What happened in the meantime is done so often, as going to sleep and waking takes CPU time too.
const STEP: Duration = Duration::from_millis(100);
/// How long arming takes at the most.
const LEAD: Duration = Duration::from_secs(1);

struct Run {
    cpu: Duration,
    moved: usize,
    fired: u64,
    cascaded: u64,
    wakeups: u64,
}

pub(super) fn run(scale: Scale) -> Findings {
    let period = scale.length(PERIOD).max(STEP);
    let connections = Connections::new(scale.of(CONNECTIONS), period);
    let count = connections.limits.len();
    eprintln!("{count} connections, watched for {} s", period.as_secs());
    let found = rounds(
        scale.few_rounds(),
        &mut [&mut || Server::new(&connections, period, None).run(), &mut || {
            Server::new(&connections, period, Some(Tolerance::share(SHARE))).run()
        }],
    );
    let header = [
        "timers",
        "moved",
        "fired",
        "cascades",
        "wake-ups in a second",
        "CPU in a second",
        "ratio",
        "target",
    ];
    let mut table = Table::new("100,000 idle connections, the whole process", header)
        .ratio_within("ratio", "the CPU time with a tolerance divided by that without");
    let pairs: Vec<_> = found
        .iter()
        .map(|sides| (sides[TOLERANT].cpu.as_nanos() as f64, sides[EXACT].cpu.as_nanos() as f64))
        .collect();
    let compared = Comparison::of("", Unit::Nanos, &pairs);
    for (side, name) in SIDES.into_iter().enumerate() {
        let of_runs = |value: &dyn Fn(&Run) -> f64| median(found.iter().map(|sides| value(&sides[side])));
        let in_a_second = |value: f64| value / period.as_secs_f64();
        let (ratio, target) = if side == TOLERANT {
            (compared.ratio_cell(), compared.target(Some(TARGET)))
        } else {
            Default::default()
        };
        table = table.row([
            name.into(),
            Unit::Count.show(of_runs(&|run| run.moved as f64)),
            Unit::Count.show(of_runs(&|run| run.fired as f64)),
            Unit::Count.show(of_runs(&|run| run.cascaded as f64)),
            number(in_a_second(of_runs(&|run| run.wakeups as f64))),
            Unit::Nanos.show(in_a_second(of_runs(&|run| run.cpu.as_nanos() as f64))),
            ratio,
            target,
        ]);
    }
    table
        .note(format!(
            "CPU time of the process, 2 workers, over {} s, in which timers that were armed at any time before are moved, \
             cascade, fire and are armed anew; a waker that only counts stands for the task. What moves and arms them, ten \
             times in a second, is in it.",
            period.as_secs()
        ))
        .into()
}

struct Server<'a> {
    connections: &'a Connections,
    period: Duration,
    tolerance: Option<Tolerance>,
    wheel: TimingWheel,
    timers: Vec<Sleep>,
    waker: Waker,
    wakes: Arc<Wakes>,
    /// The driver's.
    _runtime: Runtime,
}

impl<'a> Server<'a> {
    fn new(connections: &'a Connections, period: Duration, tolerance: Option<Tolerance>) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
        let wheel = runtime.block_on(async { TimingWheel::new() });
        let wakes = Arc::<Wakes>::default();
        let waker = Waker::from(wakes.clone());
        let timers = Vec::with_capacity(connections.limits.len());
        Self { connections, period, tolerance, wheel, timers, waker, wakes, _runtime: runtime }
    }

    fn run(mut self) -> Run {
        // So that none is due before all are armed.
        for (number, &end) in self.connections.first_ends.iter().enumerate() {
            let sleep = self.wheel.sleep(LEAD + end);
            // As if it had been armed by the last activity, whenever that was.
            let limit = self.connections.limits[number];
            let tolerance = Tolerance::time(limit.mul_f64(SHARE));
            self.timers.push(if self.tolerance.is_some() { sleep.with_tolerance(tolerance) } else { sleep });
            self.poll(number);
        }
        assert_eq!(self.wheel.pending(), self.connections.limits.len());
        thread::sleep(LEAD);

        let (before, cpu, start) = (self.wheel.stats(), cpu_time(), Instant::now());
        let mut activities = self.connections.activities.iter();
        let mut moved = 0;
        while start.elapsed() < self.period {
            thread::sleep(STEP);
            let so_far = start.elapsed();
            while let Some(&(at, number)) = activities.as_slice().first()
                && at <= so_far
            {
                activities.next();
                self.move_on(number);
                moved += 1;
            }
        }
        let (after, cpu) = (self.wheel.stats(), cpu_time() - cpu);
        let fired = after.fired - before.fired;
        assert!(self.wakes.0.load(Ordering::Relaxed) as u64 >= fired, "each woke its task");
        Run {
            cpu,
            moved,
            fired,
            cascaded: after.cascaded - before.cascaded,
            wakeups: after.turns - before.turns,
        }
    }

    /// One that has fired is armed anew by that.
    fn move_on(&mut self, number: usize) {
        let limit = self.connections.limits[number];
        let mut sleep = Pin::new(&mut self.timers[number]);
        match self.tolerance {
            Some(tolerance) => sleep.reset_with_tolerance((Instant::now() + limit).into(), tolerance),
            None => sleep.reset_after(limit),
        }
        self.poll(number);
    }

    fn poll(&mut self, number: usize) {
        let mut cx = Context::from_waker(&self.waker);
        assert_eq!(self.timers[number].poll_wait(&mut cx), Poll::Pending, "it is registered");
    }
}

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Relaxed: nothing else is read by it.
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}
