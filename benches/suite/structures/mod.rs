//! What do starting a timer, stopping one and a tick cost in the structures that timers have been kept in, and how do
//! the costs grow with the number of timers?
//!
//! The structures alone, in one thread, without a lock, a clock or a waker: those that timers are kept in by hand beside
//! our [`Hierarchy`](timingwheel::wheel::Hierarchy). Before anything is measured all of them are
//! given the same timers, and have to fire the same ones at the same ticks.

mod growth;
mod kept;

use std::time::{Duration, Instant};

use timingwheel::wheel::Nanos;

use kept::{LazyHeap, OurWheel, Timers};

use crate::support::{Axis, Better, Case, Chart, Duel, Findings, Scale, Table, Unit, median};
use growth::{LONGEST_DELAY, Sample, Workload};
use kept::{DEFAULT_SLOTS, HashedWheel, OrderedMap, TICK};

pub(crate) fn cases() -> Vec<Case> {
    vec![Case::new(
        "structures",
        "What do starting a timer, stopping one and a tick cost in each structure, and how do the costs grow?",
        run,
    )]
}

/// A structure, and how it takes part.
struct Subject {
    name: &'static str,
    lap: fn(&Workload) -> Sample,
    replay: fn(&Script) -> Replay,
}

impl Subject {
    const fn of<T: Timers>() -> Self {
        Self { name: T::NAME, lap: growth::lap::<T>, replay: replay::<T> }
    }
}

const SUBJECTS: [Subject; 4] = [
    Subject::of::<OurWheel<DEFAULT_SLOTS>>(),
    Subject::of::<HashedWheel>(),
    Subject::of::<OrderedMap>(),
    Subject::of::<LazyHeap>(),
];

// Measures all structures at all sizes, and shows how their costs grow.

const SMALLEST: usize = 100;
const LARGEST: usize = 10_000_000;
/// Above this a round takes seconds, and there is one only.
const LARGEST_IN_ROUNDS: usize = 1_000_000;
/// A round repeats laps for so long, so that small structures are measured as long as large ones.
const ROUND: Duration = Duration::from_millis(50);

/// One of the three costs.
struct Aspect {
    file: &'static str,
    title: &'static str,
    label: &'static str,
    nanos: fn(&Sample) -> f64,
}

const ASPECTS: [Aspect; 3] = [
    Aspect {
        file: "structures_start",
        title: "Starting a timer",
        label: "start, ns",
        nanos: |sample| sample.start.nanos_each(),
    },
    Aspect {
        file: "structures_stop",
        title: "Stopping a timer",
        label: "stop, ns",
        nanos: |sample| sample.stop.nanos_each(),
    },
    Aspect {
        file: "structures_tick",
        title: "A tick",
        label: "tick, ns",
        nanos: |sample| sample.tick.nanos_each(),
    },
];

/// The place of ours among the subjects.
const OURS: usize = 0;

/// For each size that was measured, the medians of the aspects.
type Growth = Vec<(usize, [f64; ASPECTS.len()])>;

fn run(scale: Scale) -> Findings {
    check(scale);
    let sizes: Vec<usize> = std::iter::successors(Some(SMALLEST), |size| {
        Some(size * 10).filter(|&next| next <= scale.of(LARGEST))
    })
    .collect();
    let mut growths: Vec<Growth> = SUBJECTS.iter().map(|_| Growth::new()).collect();
    for &size in &sizes {
        eprintln!("{size} timers");
        for (growth, medians) in growths.iter_mut().zip(measure(scale, size)) {
            growth.push((size, medians));
        }
    }
    let mut findings = Findings::default();
    for (aspect, what) in ASPECTS.iter().enumerate() {
        findings.tables.push(table(what, aspect, &sizes, &growths));
        findings.charts.push(chart(what, aspect, &growths));
    }
    let last = findings.tables.pop().expect("a table for each aspect");
    findings.tables.push(notes(last));
    findings
}

/// The medians for each structure at this size. All structures in turn in each round.
fn measure(scale: Scale, size: usize) -> Vec<[f64; ASPECTS.len()]> {
    let workload = Workload::random(size);
    let rounds = if size > LARGEST_IN_ROUNDS { 1 } else { scale.rounds() };
    let mut samples: Vec<Vec<Sample>> = SUBJECTS.iter().map(|_| Vec::new()).collect();
    for _ in 0..rounds {
        for (subject, samples) in SUBJECTS.iter().zip(&mut samples) {
            samples.push(round(scale, subject, &workload));
        }
    }
    samples.iter().map(|samples| ASPECTS.map(|aspect| median(samples.iter().map(aspect.nanos)))).collect()
}

fn round(scale: Scale, subject: &Subject, workload: &Workload) -> Sample {
    let start = Instant::now();
    let mut sum = Sample::default();
    loop {
        sum.add((subject.lap)(workload));
        if scale.is_test() || start.elapsed() >= ROUND {
            return sum;
        }
    }
}

fn table(what: &Aspect, aspect: usize, sizes: &[usize], growths: &[Growth]) -> Table {
    let header = sizes.iter().map(|&size| Unit::Count.show(size as f64));
    let mut table = Table::new(what.title, std::iter::once("timers pending".to_owned()).chain(header));
    for (subject, growth) in SUBJECTS.iter().zip(growths) {
        let cells = growth.iter().map(|(_, nanos)| Unit::Nanos.show(nanos[aspect]));
        table = table.row(std::iter::once(subject.name.to_owned()).chain(cells));
    }
    sizes.iter().enumerate().fold(table, |table, (place, size)| {
        let what = format!("{}, {} pending", what.title.to_lowercase(), Unit::Count.show(*size as f64));
        let others = SUBJECTS.iter().zip(growths).skip(OURS + 1);
        let at = others.map(|(other, growth)| (other.name, growth[place].1[aspect]));
        let best = at.min_by(|a, b| a.1.total_cmp(&b.1)).expect("there are others");
        table.duel(Duel::new(what, Unit::Nanos, growths[OURS][place].1[aspect], best))
    })
}

fn chart(what: &Aspect, aspect: usize, growths: &[Growth]) -> Chart {
    let chart =
        Chart::new(what.file, what.title, Better::Less, Axis::log("timers pending"), Axis::log(what.label));
    SUBJECTS.iter().zip(growths).fold(chart, |chart, (subject, growth)| {
        let points = growth.iter().map(|&(size, nanos)| (size as f64, nanos[aspect])).collect();
        chart.series(subject.name, points)
    })
}

/// What holds for all three tables.
fn notes(table: Table) -> Table {
    table
        .note(format!(
            "In all three tables delays are spread evenly over {} ticks of 1 ms. Timers are stopped and started at \
             random places, each once at the most, so that the heap with lazy removal comes to hold up to one dead \
             timer for each that lives. A tick hands out what is due in it, one of every {} \
             pending timers.",
            Unit::Count.show(LONGEST_DELAY as f64),
            Unit::Count.show(LONGEST_DELAY as f64)
        ))
        .note(format!(
            "Medians of rounds in which all structures took their turn; a single round above {} timers. Before, all of \
             them were given the same timers, and fired the same ones at the same ticks.",
            Unit::Count.show(LARGEST_IN_ROUNDS as f64)
        ))
}

// Whether all structures fire the same timers at the same ticks.

/// Steps of which each starts a timer, stops one that may long have fired, and turns the clock.
struct Script {
    steps: Vec<Step>,
}

struct Step {
    delay: Nanos,
    /// The number of the start whose timer is stopped, if it has not fired.
    stop: usize,
    turn: Nanos,
}

/// What a structure did.
#[derive(Debug, Default, PartialEq, Eq)]
struct Replay {
    /// Whether each stop found its timer.
    stopped: Vec<bool>,
    /// The numbers of what fired at each turn, sorted.
    fired: Vec<Vec<u32>>,
}

impl Script {
    fn random(steps: usize) -> Self {
        /// Beyond the hashed wheel's ring, and on the third level of ours.
        const LONGEST_DELAY: u64 = 10_000;
        const LONGEST_TURN: u64 = 20;
        let mut random = fastrand::Rng::with_seed(0);
        let mut ticks = |range: std::ops::RangeInclusive<u64>| Nanos(random.u64(range) * TICK.0);
        let mut stops = fastrand::Rng::with_seed(1);
        let steps = (0..steps)
            .map(|number| Step {
                delay: ticks(1..=LONGEST_DELAY),
                stop: stops.usize(..=number),
                turn: ticks(0..=LONGEST_TURN),
            })
            .collect();
        Self { steps }
    }
}

fn replay<T: Timers>(script: &Script) -> Replay {
    let mut timers = T::new(script.steps.len());
    let mut replay = Replay::default();
    let mut now = Nanos::ZERO;
    let mut started: Vec<(T::Handle, Nanos)> = Vec::new();
    let mut turn = |timers: &mut T, now: Nanos, started: &[(T::Handle, Nanos)]| {
        let mut fired = Vec::new();
        timers.advance(now, &mut fired);
        for &payload in &fired {
            assert!(started[payload as usize].1 <= now, "{} fired a timer early", T::NAME);
        }
        fired.sort_unstable();
        replay.fired.push(fired);
    };
    for (number, step) in (0..).zip(&script.steps) {
        let deadline = Nanos(now.0 + step.delay.0);
        started.push((timers.start(now, deadline, number), deadline));
        replay.stopped.push(timers.stop(started[step.stop].0));
        now = Nanos(now.0 + step.turn.0);
        turn(&mut timers, now, &started);
    }
    let last = started.iter().map(|&(_, deadline)| deadline).max().unwrap_or(now);
    turn(&mut timers, last.max(now), &started);
    let stopped = replay.stopped.iter().filter(|&&was_there| was_there).count();
    let fired = replay.fired.iter().map(Vec::len).sum::<usize>();
    assert_eq!(stopped + fired, started.len(), "{} lost timers, or fired some twice", T::NAME);
    replay
}

/// # Panics
/// If two structures differ.
fn check(scale: Scale) {
    const STEPS: usize = 20_000;
    let script = Script::random(if scale.is_test() { STEPS / 10 } else { STEPS });
    let [first, others @ ..] = &SUBJECTS;
    let expected = (first.replay)(&script);
    assert!(expected.fired.iter().any(|fired| !fired.is_empty()), "no timer fired");
    assert!(expected.stopped.contains(&true) && expected.stopped.contains(&false), "stops were all alike");
    for Subject { name, replay, .. } in others {
        assert!(replay(&script) == expected, "{name} and {} differ", first.name);
    }
}
