//! Other timers beside ours: those that never fire, as most in a server do, and those that do.

use std::pin::pin;
use std::time::{Duration, Instant};

use timingwheel::TimingWheel;
use tokio::task::JoinHandle;

use super::host::{
    ALTERNATIVE, Host, Pinned, Spent, TIMEOUT, Visit, each_rival, far, ours, ours_with_short_tick,
};
use crate::sides::{Timer, assert_pending};
use crate::support::{Comparison, Duel, Findings, Scale, Table, Unit, cpu_time, warm_rounds};

// Pairs of which each side has two values: the time of the calls, and CPU time.

const HEADER: [&str; 7] =
    ["timer", "its time", "ours beside it", "ours / its", "its CPU", "our CPU beside it", "ours / its, CPU"];

type Row = [String; HEADER.len()];

fn table(title: &str, rows: Vec<Row>) -> Table {
    let table = Table::new(title, HEADER)
        .ratio_to_each("ours / its", "ours beside it", "its time")
        .ratio_to_each("ours / its, CPU", "our CPU beside it", "its CPU");
    rows.into_iter().fold(table, Table::row)
}

/// Runs both sides in turn, and returns the cells of a row.
fn row(
    scale: Scale,
    name: &str,
    operations: usize,
    mut ours: impl FnMut() -> Spent,
    mut rival: impl FnMut() -> Spent,
) -> Row {
    let rounds = warm_rounds(scale.rounds(), &mut [&mut ours, &mut rival]);
    let cells = |nanos: fn(&Spent) -> f64| {
        let each = |nanos: f64| Unit::Nanos.show(nanos / operations as f64);
        let pairs: Vec<_> = rounds.iter().map(|sides| (nanos(&sides[0]), nanos(&sides[1]))).collect();
        let found = Comparison::of("", Unit::Nanos, &pairs);
        [each(found.rival), each(found.ours), found.ratio_cell()]
    };
    let [its, ours, ratio] = cells(|spent| spent.wall.as_nanos() as f64);
    let [its_cpu, our_cpu, ratio_cpu] = cells(|spent| spent.cpu.as_nanos() as f64);
    [name.to_owned(), its, ours, ratio, its_cpu, our_cpu, ratio_cpu]
}

// Timers that never fire, as most in a server do: alone, and among many.

const OPERATIONS: usize = 50_000;
const PENDING: usize = 100_000;

struct Arming {
    scale: Scale,
    ours: Host<TimingWheel>,
    alone: Vec<Row>,
    among: Vec<Row>,
    replaced: Vec<Row>,
}

pub(super) fn arming(scale: Scale) -> Findings {
    let mut arming =
        Arming { scale, ours: ours(), alone: Vec::new(), among: Vec::new(), replaced: Vec::new() };
    each_rival(&mut arming);
    let Arming { alone, among, replaced, .. } = arming;
    let alone =
        table("Create, first poll, drop, with nothing else pending", alone).about("alone, make and drop");
    let among =
        table("Create, first poll, drop, with 100,000 pending", among).about("among 100,000, make and drop");
    let replaced = table("Replace one of 100,000 at random", replaced).about("one of 100,000 replaced")
        .note(
            "In all three tables CPU time is that of the whole process until a timer made later has fired: async-io and \
             futures-timer queue what is to be done, and do it later or on a thread of their own. pingora-timeout keeps \
             a timer that was dropped until its time comes, shared by all that are due in the same 10 ms.",
        )
        .note(
            "The timers that come and go have a timeout of 300 s. With nothing else pending each of them is the next to \
             fire, for which tokio wakes its driver; of the 100,000 one is due after 200 s and the rest, like their \
             replacements, from 300 s to 800 s.",
        )
        .note(ALTERNATIVE);
    Findings { tables: vec![alone, among, replaced] }
}

impl Visit for Arming {
    fn visit<T: Timer>(&mut self, rival: &Host<T>) {
        let Self { scale, ours, .. } = self;
        let (scale, name) = (*scale, rival.name);
        let (operations, pending) = (scale.of(OPERATIONS), scale.of(PENDING));
        let row = |ours: &mut dyn FnMut() -> Spent, rival: &mut dyn FnMut() -> Spent| {
            row(scale, name, operations, ours, rival)
        };
        let before = ours.timer.stats().armed;

        eprintln!("{name}: alone");
        let alone = row(&mut || come_and_go(ours, operations), &mut || come_and_go(rival, operations));

        eprintln!("{name}: among many");
        let (mut our_sleeps, mut rival_sleeps) = (ours.fill(pending), rival.fill(pending));
        let among = row(&mut || come_and_go(ours, operations), &mut || come_and_go(rival, operations));

        eprintln!("{name}: replaced");
        let replaced = row(&mut || replace(ours, &mut our_sleeps, operations), &mut || {
            replace(rival, &mut rival_sleeps, operations)
        });
        assert_eq!(our_sleeps.len(), ours.timer.pending(), "each of ours is pending");

        let armed = ours.timer.stats().armed - before;
        let expected = (3 * (scale.rounds() + 1) * operations + pending) as u64;
        assert!(armed >= expected, "only {armed} of {expected} timers reached the wheel");
        self.alone.push(alone);
        self.among.push(among);
        self.replaced.push(replaced);
    }
}

fn come_and_go<T: Timer>(host: &Host<T>, operations: usize) -> Spent {
    let ((), spent) = host.in_task(move |timer, cx| {
        (0..operations).for_each(|_| assert_pending(pin!(timer.sleep(TIMEOUT)), cx));
    });
    spent
}

fn replace<T: Timer>(host: &Host<T>, sleeps: &mut Vec<Pinned<T>>, operations: usize) -> Spent {
    let mut all = std::mem::take(sleeps);
    let (all, spent) = host.in_task(move |timer, cx| {
        for _ in 0..operations {
            // Not the first, which stays the next to fire.
            let chosen = fastrand::usize(1..all.len());
            let place = &mut all[chosen];
            place.set(timer.sleep(far()));
            assert_pending(place.as_mut(), cx);
        }
        all
    });
    *sleeps = all;
    spent
}

// Timers that fire: how late each is, and what it takes.

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

pub(super) fn firing(scale: Scale) -> Findings {
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
    Findings { tables: vec![lateness, cost] }
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
        let row = row(
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
