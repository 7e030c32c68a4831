//! Measures all structures at all sizes, and shows how their costs grow.

use std::time::{Duration, Instant};

use super::growth::{LONGEST_DELAY, Sample, Workload};
use super::{SUBJECTS, Subject, agreement};
use crate::support::{Axis, Better, Chart, Duel, Findings, Scale, Table, Unit, median};

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

pub(super) fn run(scale: Scale) -> Findings {
    agreement::check(scale);
    let sizes: Vec<usize> = std::iter::successors(Some(SMALLEST), |size| {
        Some(size * 10).filter(|&next| next <= scale.of(LARGEST))
    })
    .collect();
    let mut growths: Vec<Growth> = SUBJECTS.iter().map(|_| Growth::new()).collect();
    for &size in &sizes {
        eprintln!("{size} timers");
        for (growth, medians) in growths.iter_mut().zip(measure(scale, size)) {
            growth.extend(medians.map(|medians| (size, medians)));
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

/// The medians for each structure that takes part at this size. All structures in turn in each round.
fn measure(scale: Scale, size: usize) -> Vec<Option<[f64; ASPECTS.len()]>> {
    let random = Workload::random(size);
    let mut in_order = random.deadlines.clone();
    in_order.sort_unstable();
    let in_order = Workload { deadlines: in_order };
    let rounds = if size > LARGEST_IN_ROUNDS { 1 } else { scale.rounds() };
    let mut samples: Vec<Vec<Sample>> = SUBJECTS.iter().map(|_| Vec::new()).collect();
    for _ in 0..rounds {
        for (subject, samples) in SUBJECTS.iter().zip(&mut samples) {
            if size <= subject.limit {
                let workload = if subject.fills_in_order { &in_order } else { &random };
                samples.push(round(scale, subject, workload));
            }
        }
    }
    let medians = |samples: &Vec<Sample>| {
        (!samples.is_empty()).then(|| ASPECTS.map(|aspect| median(samples.iter().map(aspect.nanos))))
    };
    samples.iter().map(medians).collect()
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
        let cell = |size| match growth.iter().find(|(measured, _)| measured == size) {
            Some((_, nanos)) => Unit::Nanos.show(nanos[aspect]),
            None => "-".to_owned(),
        };
        table = table.row(std::iter::once(subject.name.to_owned()).chain(sizes.iter().map(cell)));
    }
    sizes.iter().enumerate().fold(table, |table, (place, size)| {
        let what = format!("{}, {} pending", what.title.to_lowercase(), Unit::Count.show(*size as f64));
        let others = SUBJECTS.iter().zip(growths).skip(OURS + 1);
        let at = others.filter_map(|(other, growth)| Some((other.name, growth.get(place)?.1[aspect])));
        let best = at.min_by(|a, b| a.1.total_cmp(&b.1)).expect("some go to the end");
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
    let table = table
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
        ));
    SUBJECTS.iter().filter(|subject| subject.fills_in_order).fold(table, |table, subject| {
        table.note(format!(
            "The {} is filled in the order of deadlines, which lays it out in memory as well as can be, because in any \
             other order that takes a time that grows with the square; above {} timers a start takes too long to be \
             measured.",
            subject.name,
            Unit::Count.show(subject.limit as f64)
        ))
    })
}
