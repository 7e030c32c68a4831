//! Searches for each structure, and shows what was found.

use timingwheel::TimingWheel;
use tokio::runtime::Runtime;

use super::direct::Direct;
use super::heap_purgatory::{PURGE_INTERVAL, ToldByTask, Untold};
use super::nothing::Nothing;
use super::operations::Operations;
use super::replay::BACKLOG;
use super::schedule::{LATENCIES, Latency};
use super::search::{ATTEMPTS, Found, STEP, run as run_at, search};
use super::sleeps::Sleeps;
use super::{SLOTS, TIMEOUT};
use crate::rivals::host::{ALTERNATIVE, runtime};
use crate::sides::Tokio;
use crate::structures::{IndexedHeap, LazyHeap, OurWheel};
use crate::support::{Axis, Better, Chart, Duel, Findings, Scale, Table, Unit};

/// The rate at which it is seen what a run costs without timers.
const RATE_OF_NOTHING: f64 = 1_000_000.0;

struct Subject {
    name: &'static str,
    runtime: fn() -> Runtime,
    search: fn(Scale, &Runtime, Latency) -> Found,
    /// For one of ours: the names of what it competes with.
    rivals: &'static [&'static str],
}

const HEAP: &str = "a heap with removal at once";
const SLEEP: &str = "tokio::time::Sleep";
const COUNTING: &str = "a heap purgatory that counts";
const TELLING: &str = "a heap purgatory that tells";

const SUBJECTS: &[Subject] = &[
    Subject {
        name: "a heap with lazy removal, as in Kafka's old purgatory",
        runtime,
        search: search::<Direct<LazyHeap>>,
        rivals: &[],
    },
    Subject { name: HEAP, runtime, search: search::<Direct<IndexedHeap>>, rivals: &[] },
    Subject {
        name: "timingwheel::wheel::Hierarchy, 20 slots",
        runtime,
        search: search::<Direct<OurWheel<SLOTS>>>,
        rivals: &[HEAP],
    },
    Subject {
        name: "timingwheel::Sleep, 20 slots",
        runtime,
        search: search::<Sleeps<TimingWheel>>,
        rivals: &[SLEEP],
    },
    Subject { name: SLEEP, runtime, search: search::<Sleeps<Tokio>>, rivals: &[] },
    #[cfg(tokio_unstable)]
    Subject {
        name: "tokio::time::Sleep, alternative timer",
        runtime: crate::rivals::host::alternative_runtime,
        search: search::<Sleeps<Tokio>>,
        rivals: &[],
    },
    Subject { name: COUNTING, runtime, search: search::<Untold>, rivals: &[] },
    Subject { name: TELLING, runtime, search: search::<ToldByTask>, rivals: &[] },
    Subject {
        name: "timingwheel_purgatory, 20 slots",
        runtime,
        search: search::<Operations>,
        rivals: &[COUNTING, TELLING],
    },
];

pub(super) fn run(scale: Scale) -> Findings {
    let mut rows: Vec<Vec<String>> = SUBJECTS.iter().map(|subject| vec![subject.name.to_owned()]).collect();
    let (mut findings, mut duels) = (Findings::default(), Vec::new());
    for latency in LATENCIES {
        // The highest, by subject.
        let mut rates: Vec<Option<f64>> = Vec::new();
        let mut chart = Chart::new(
            latency.file,
            &format!("Requests complete {}", latency.name),
            Better::LowerRight,
            Axis::log("million requests a second"),
            Axis::linear("part of the time in which the thread is busy, %"),
        );
        for (subject, row) in SUBJECTS.iter().zip(&mut rows) {
            eprintln!("{}, {}", subject.name, latency.name);
            let found = (subject.search)(scale, &(subject.runtime)(), latency);
            let [rate, each] = found.highest.map_or_else(
                || ["-".to_owned(), "-".to_owned()],
                |run| [Unit::Count.show(run.rate), Unit::Nanos.show(run.nanos_each)],
            );
            row.extend([rate, each]);
            rates.push(found.highest.map(|run| run.rate));
            // The others ended before they were busy all the time.
            let sustained = found.runs.iter().filter(|run| run.is_sustained);
            let points = sustained.map(|run| (run.rate / 1e6, run.busy * 100.0)).collect();
            chart = chart.series(subject.name, points);
        }
        findings.charts.push(chart);
        let rate_of = |name| {
            let place = SUBJECTS.iter().position(|other| other.name == name).expect("a rival is a subject");
            rates[place]
        };
        for subject in SUBJECTS {
            let [latency, structure] = [latency.name, subject.name].map(first_part);
            let what = format!("requests/s, {latency}, {structure}");
            duels.extend(subject.rivals.iter().filter_map(|&rival| {
                let ours = rate_of(subject.name)?;
                Some(Duel::of_rates(&what, Unit::Count, ours, (rival, rate_of(rival)?)))
            }));
        }
    }
    let [first, second] = LATENCIES.map(|latency| latency.name);
    let header = [
        "structure".to_owned(),
        format!("requests a second, {first}"),
        "time for each".to_owned(),
        format!("requests a second, {second}"),
        "time for each".to_owned(),
    ];
    let table = rows.into_iter().fold(Table::new("The highest rate sustained", header), Table::row);
    let table = duels.into_iter().fold(table, Table::duel);
    findings.tables.push(notes(scale, table));
    findings
}

/// A name up to its first comma, without the crate's.
fn first_part(name: &str) -> &str {
    let first = name.split(',').next().unwrap_or_default();
    first.rsplit("::").next().unwrap_or_default().trim_start_matches("timingwheel_")
}

fn notes(scale: Scale, table: Table) -> Table {
    let backlog = BACKLOG.as_millis();
    let nothing = run_at::<Nothing>(scale, &runtime(), LATENCIES[0], RATE_OF_NOTHING);
    table
        .note(format!(
            "All timeouts are {} ms. One thread goes through a schedule drawn up beforehand: for each tenth of a \
             millisecond it waits until that is over, does what is due by then, and turns the structure. A rate is \
             sustained if the thread is never more than {backlog} ms behind the schedule, and no timer more than \
             {backlog} ms overdue, in one of {ATTEMPTS} runs of a second. Of the rates that may be tried, each is {:.0} \
             % above the last. The time for each request is what the thread was not waiting, at the highest rate \
             sustained and once timers fire.",
            TIMEOUT.as_millis(),
            (STEP - 1.0) * 100.0
        ))
        .note(format!(
            "The thread's own work takes {} of it: that is what a structure takes that does nothing, at {} requests a \
             second.",
            Unit::Nanos.show(nothing.nanos_each),
            Unit::Count.show(nothing.rate)
        ))
        .note(
            "The first three are turned by the thread itself, without a lock. Sleeps and our purgatory register a \
             future with the runtime for each request, whose waker counts; the runtime has one worker, which the thread is, and fires \
             them when the thread yields.",
        )
        .note(format!(
            "The last three are whole purgatories. A request is an operation with a condition of its own, watched under \
             two keys: its own, which is checked when it is complete, and one that all share, which nobody checks. The \
             one on a heap, under a mutex as its lists are, leaves what is complete where it is until {} requests have \
             come, and then looks through all of it; ours takes it out at once, and wakes a task. On the heap nobody is \
             told of an end, which is only counted, or else a task is by a oneshot channel, as one would write that by \
             hand for a server that has to answer.",
            Unit::Count.show(f64::from(PURGE_INTERVAL))
        ))
        .note(
            "As all timeouts are alike, deadlines come in order: the best case of a heap, in which what is started \
             never moves up.",
        )
        .note(
            "For comparison: Kafka published 25,000 requests a second for its old purgatory, a delay queue, and \
             105,000 for its wheel. A reduced replay on a machine of this kind gave 240,000 for a heap that removes at \
             once, 1.3 million for Kafka's wheel, 1.3 to 1.9 million for tokio's timers, and 3.6 million for Netty's.",
        )
        .note(ALTERNATIVE)
}
