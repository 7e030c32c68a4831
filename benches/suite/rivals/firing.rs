//! Timers that fire: how late each is, and what it takes.

use std::time::{Duration, Instant};

use timingwheel::TimingWheel;
use tokio::task::JoinHandle;

use super::host::{ALTERNATIVE, Host, Spent, Visit, each_rival, ours, ours_with_short_tick};
use super::paired::{self, Row, table};
use super::timers::Timer;
use crate::support::{Duel, Findings, Scale, Table, Unit, cpu_time};

/// Two a millisecond: what is seen is the timer, and not how busy the machine is.
const SPARSE: Load = Load { timers: 2_000, longest: Duration::from_millis(1_000) };
const DENSE: Load = Load { timers: 40_000, longest: Duration::from_millis(160) };
const LATENESS: [&str; 8] = [
    "timer",
    "half within",
    "99 % within",
    "ours beside it, half within",
    "ours beside it, 99 % within",
    "early",
    "earliest by",
    "never fired",
];
/// Runs of which each side has its turn. All lateness seen in them is taken together.
const TURNS: usize = 3;
/// A timer that has not fired so long after its deadline counts as lost.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Clone, Copy)]
struct Load {
    timers: usize,
    /// Delays are spread evenly up to this, to the microsecond.
    longest: Duration,
}

impl Load {
    /// At the same rate.
    fn scaled(self, scale: Scale) -> Self {
        let timers = if scale.is_test() { self.timers / 10 } else { self.timers };
        let longest = if scale.is_test() { self.longest / 10 } else { self.longest };
        Self { timers, longest }
    }

    fn delay(self) -> Duration {
        let longest = u64::try_from(self.longest.as_micros()).expect("a short time");
        Duration::from_micros(fastrand::u64(1_000..longest))
    }
}

struct Firing {
    scale: Scale,
    ours: Host<TimingWheel>,
    lateness: Vec<[String; LATENESS.len()]>,
    duels: Vec<Duel>,
    cost: Vec<Row>,
    /// How many timers of which rival did not fire while the cost was measured.
    lost: Vec<(&'static str, usize)>,
}

pub(super) fn run(scale: Scale) -> Findings {
    let mut firing = Firing {
        scale,
        ours: ours(),
        lateness: Vec::new(),
        duels: Vec::new(),
        cost: Vec::new(),
        lost: Vec::new(),
    };
    firing.visit(&ours_with_short_tick());
    each_rival(&mut firing);
    let Firing { lateness, duels, cost, lost, .. } = firing;
    let lateness = lateness.into_iter().fold(Table::new("Lateness", LATENESS), Table::row);
    let lateness = duels
        .into_iter()
        .fold(lateness, Table::duel)
        .note(format!(
            "{TURNS} times {} timers over {} s with delays to the microsecond, each awaited by a task; ours with a \
             tick of 1 ms. Lateness is what the task sees: the time from the deadline to when it runs. None of ours was \
             early or lost. pingora-timeout's tick is 10 ms.",
            SPARSE.timers,
            SPARSE.longest.as_secs_f64(),
        ))
        .note(ALTERNATIVE);
    let cost = table("Spawn a task, arm and fire", cost).about("a task that sleeps").note(format!(
        "{} timers over {} ms. The time is that of the longest delay, give or take the lateness; the CPU time is that \
         of the whole process.",
        DENSE.timers,
        DENSE.longest.as_millis(),
    ));
    let cost = lost.into_iter().fold(cost, |cost, (name, lost)| {
        cost.note(format!(
            "{lost} timers of {name} never fired, so its time is the patience of this benchmark."
        ))
    });
    Findings { tables: vec![lateness, cost], ..Findings::default() }
}

impl Visit for Firing {
    fn visit<T: Timer>(&mut self, rival: &Host<T>) {
        let (scale, name) = (self.scale, rival.name);
        let load = DENSE.scaled(scale);
        eprintln!("{name}: lateness");
        let (mut ours, mut theirs) = (Seen::default(), Seen::default());
        for _ in 0..if scale.is_test() { 1 } else { TURNS } {
            ours.add(run_tasks(&self.ours, SPARSE.scaled(scale)));
            theirs.add(run_tasks(rival, SPARSE.scaled(scale)));
        }
        assert!(ours.early.is_empty() && ours.lost == 0, "ours are neither early nor lost: {ours:?}");
        self.lateness.push(lateness_row(name, &mut theirs, &mut ours));
        for (percent, what) in [(50, "lateness, half within"), (99, "lateness, 99 % within")] {
            if let Some((ours, its)) = ours.within(percent).zip(theirs.within(percent)) {
                let nanos = |time: Duration| time.as_nanos() as f64;
                self.duels.push(Duel::new(what, Unit::Nanos, nanos(ours), (name, nanos(its))));
            }
        }
        eprintln!("{name}: CPU");
        let before = self.ours.timer.stats().fired;
        let (mut our_lost, mut rival_lost) = (0, 0);
        let row = paired::row(
            scale,
            name,
            load.timers,
            || fire(&self.ours, load, &mut our_lost),
            || fire(rival, load, &mut rival_lost),
        );
        let fired = self.ours.timer.stats().fired - before;
        assert!(fired > 0 && our_lost == 0, "{fired} of ours fired, and {our_lost} did not");
        self.cost.push(row);
        if rival_lost > 0 {
            self.lost.push((name, rival_lost));
        }
    }
}

/// What became of some timers.
#[derive(Debug, Default)]
struct Seen {
    late: Vec<Duration>,
    early: Vec<Duration>,
    lost: usize,
}

impl Seen {
    fn add(&mut self, (all, lost): (Vec<Slept>, usize)) {
        self.lost += lost;
        for (slept, delay) in all {
            match slept.checked_sub(delay) {
                Some(late) => self.late.push(late),
                None => self.early.push(delay - slept),
            }
        }
    }

    /// What so many of a hundred do not exceed; nothing if none was late.
    fn within(&mut self, percent: usize) -> Option<Duration> {
        self.late.sort_unstable();
        self.late.get((self.late.len() * percent / 100).saturating_sub(1)).copied()
    }
}

fn show(time: Option<Duration>) -> String {
    time.map_or_else(|| "-".to_owned(), |time| Unit::Nanos.show(time.as_nanos() as f64))
}

fn lateness_row(name: &str, theirs: &mut Seen, ours: &mut Seen) -> [String; LATENESS.len()] {
    [
        name.to_owned(),
        show(theirs.within(50)),
        show(theirs.within(99)),
        show(ours.within(50)),
        show(ours.within(99)),
        theirs.early.len().to_string(),
        show(theirs.early.iter().max().copied()),
        theirs.lost.to_string(),
    ]
}

/// How long a task slept, and for how long it was to.
type Slept = (Duration, Duration);

/// Runs a task for each timer, and waits for all of them. Returns also how many did not end.
fn run_tasks<T: Timer>(host: &Host<T>, load: Load) -> (Vec<Slept>, usize) {
    host.runtime.block_on(async {
        let end = tokio::time::Instant::now() + load.longest + PATIENCE;
        let mut tasks: Vec<_> = (0..load.timers).map(|_| spawn_one(host, load.delay())).collect();
        let mut slept = Vec::with_capacity(load.timers);
        let all = async {
            for task in &mut tasks {
                slept.push(task.await.expect("the task does not panic"));
            }
        };
        if tokio::time::timeout_at(end, all).await.is_ok() {
            return (slept, 0);
        }
        let (ended, lost): (Vec<_>, Vec<_>) = tasks.drain(slept.len()..).partition(JoinHandle::is_finished);
        for task in ended {
            slept.push(task.await.expect("the task does not panic"));
        }
        (slept, lost.len())
    })
}

fn spawn_one<T: Timer>(host: &Host<T>, delay: Duration) -> JoinHandle<Slept> {
    let timer = host.timer.clone();
    host.runtime.spawn(async move {
        // Read before the timer is made, so that what seems early is early.
        let start = Instant::now();
        timer.sleep(delay).await;
        (start.elapsed(), delay)
    })
}

fn fire<T: Timer>(host: &Host<T>, load: Load, lost: &mut usize) -> Spent {
    let (cpu, start) = (cpu_time(), Instant::now());
    *lost += run_tasks(host, load).1;
    Spent { wall: start.elapsed(), cpu: cpu_time() - cpu }
}
