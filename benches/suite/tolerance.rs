//! What do the timers of 100,000 idle connections cost when they may be late?
//!
//! Each connection has a limit from half a minute to five minutes, and is active three times in that, on average: then
//! its timer is moved to the whole limit from then. Of twenty limits one passes in silence: the timer fires, and the
//! next activity is that of a new connection, which arms it anew. Exact timers and those with a tolerance of 12.5 % are
//! given the same activity.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use timingwheel::{Sleep, TimingWheel};
use tokio::runtime::Runtime;

use crate::sides::{Rig, Wakes};
use crate::support::{Case, Comparison, Findings, Scale, Table, Unit, cpu_time, median, number, rounds};

pub(crate) fn cases() -> Vec<Case> {
    vec![Case::new(
        "tolerance",
        "What does it save a process with 100,000 idle connections that timers may be late?",
        wheel,
    )]
}

/// The sides, in this order.
const SIDES: [&str; 2] = ["exact", "a tolerance of 12.5 %"];
const EXACT: usize = 0;
const TOLERANT: usize = 1;

/// That of Linux.
const SHARE: f64 = 0.125;
/// What the CPU time of tolerant timers shall be at most, of that of exact ones.
const TARGET: f64 = 0.5;

// Connections, and when they are active.

/// How many times one is active in the time of its limit, on average. That it is not at all has a chance of 5 %.
const ACTIVE_IN_LIMIT: f64 = 3.0;

/// Connections by number.
struct Connections {
    limits: Vec<Duration>,
    /// When each limit ends that has begun before the period does.
    first_ends: Vec<Duration>,
    /// When which of them is active, in order.
    activities: Vec<(Duration, usize)>,
}

impl Connections {
    /// So many, over so long a period.
    fn new(count: usize, period: Duration) -> Self {
        const LIMITS: [u64; 5] = [30, 45, 60, 120, 300];
        let limits: Vec<Duration> =
            (0..count).map(|n| Duration::from_secs(LIMITS[n % LIMITS.len()])).collect();
        let mut activities = Vec::new();
        for (number, &limit) in limits.iter().enumerate() {
            let mut at = pause(limit);
            while at < period {
                activities.push((at, number));
                at += pause(limit);
            }
        }
        activities.sort_unstable();
        let first_ends = limits.iter().map(|limit| limit.mul_f64(fastrand::f64())).collect();
        Self { limits, first_ends, activities }
    }
}

/// The time until a connection is active again: as if each instant were as likely as any other.
fn pause(limit: Duration) -> Duration {
    let mean = limit.as_secs_f64() / ACTIVE_IN_LIMIT;
    Duration::from_secs_f64(-mean * (1.0 - fastrand::f64()).ln())
}

const CONNECTIONS: usize = 100_000;

// The whole wheel on the real clock: what the process takes while connections are idle.

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

fn wheel(scale: Scale) -> Findings {
    let period = scale.length(PERIOD).max(STEP);
    let connections = Connections::new(scale.of(CONNECTIONS), period);
    let count = connections.limits.len();
    eprintln!("{count} connections, watched for {} s", period.as_secs());
    let found = rounds(
        scale.few_rounds(),
        &mut [&mut || Server::new(&connections, period, false).run(), &mut || {
            Server::new(&connections, period, true).run()
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
    let nanos = |run: &Run| run.cpu.as_nanos() as f64;
    let compared = Comparison::of_rounds("", Unit::Nanos, &found, (TOLERANT, EXACT), nanos);
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
    is_tolerant: bool,
    wheel: TimingWheel,
    timers: Vec<Sleep>,
    waker: Waker,
    wakes: Arc<Wakes>,
    /// The driver's.
    _runtime: Runtime,
}

impl<'a> Server<'a> {
    fn new(connections: &'a Connections, period: Duration, is_tolerant: bool) -> Self {
        let Rig { wheel, runtime } = Rig::new(2);
        let wakes = Arc::<Wakes>::default();
        let waker = Waker::from(wakes.clone());
        let timers = Vec::with_capacity(connections.limits.len());
        Self { connections, period, is_tolerant, wheel, timers, waker, wakes, _runtime: runtime }
    }

    fn run(mut self) -> Run {
        // So that none is due before all are armed.
        for (number, &end) in self.connections.first_ends.iter().enumerate() {
            let sleep = self.wheel.sleep(LEAD + end);
            // As if it had been armed by the last activity, whenever that was.
            let limit = self.connections.limits[number];
            let tolerance = limit.mul_f64(SHARE);
            self.timers.push(if self.is_tolerant { sleep.with_tolerance(tolerance) } else { sleep });
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
        assert!(self.wakes.count() as u64 >= fired, "each woke its task");
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
        self.timers[number].reset_after(self.connections.limits[number]);
        self.poll(number);
    }

    fn poll(&mut self, number: usize) {
        let mut cx = Context::from_waker(&self.waker);
        assert_eq!(self.timers[number].poll_unconstrained(&mut cx), Poll::Pending, "it is registered");
    }
}
