//! The settings, the rounds and the table.

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use comfy_table::{CellAlignment, Table, presets::ASCII_MARKDOWN};
use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use timingwheel::{TimingWheel, time};
use timingwheel_examples::{cpu_time, in_words, whole};
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::EACH;
use crate::server::{Connection, Stream, in_memory, over_loopback};
use crate::ways::Way;

const ROUNDS: usize = 5;

/// What limits cost a client of a key-value server: one deadline for an operation, and a limit for each read and write.
#[derive(Parser)]
#[command(name = "kv_client")]
struct Settings {
    /// How many connections the client has, from 1 to 10,000
    #[arg(long, value_name = "NUMBER", default_value = "256", value_parser = whole(1..=10_000_usize))]
    #[arg(allow_negative_numbers = true)]
    connections: usize,

    /// The numbers of workers, from 1 to 64, with commas between them
    #[arg(long, value_name = "NUMBERS", default_value = "1,2,8", value_delimiter = ',')]
    #[arg(value_parser = whole(1..=64_usize), allow_negative_numbers = true)]
    workers: Vec<usize>,

    /// For how many milliseconds each way runs in each round, from 10 to 4,000, so that no limit of 5 s comes up
    #[arg(long, value_name = "MS", default_value = "500", value_parser = whole(10..=4_000_u64))]
    #[arg(default_value_if("short", "true", "30"), allow_negative_numbers = true)]
    time: u64,

    /// In memory instead of over loopback, where limits are most of the work
    #[arg(long)]
    memory: bool,

    /// A quick look: shorter rounds, unless their time is given
    #[arg(long)]
    short: bool,
}

pub(crate) fn main() -> ExitCode {
    match compare(&Settings::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn compare(settings: &Settings) -> Result<(), Box<dyn Error>> {
    let place = if settings.memory { "in memory" } else { "over loopback" };
    println!(
        "{} connections {place}. An operation is two writes and two reads.\nOperations a second, medians of {ROUNDS} rounds:\n",
        HumanCount(settings.connections as u64),
    );
    let steps = ROUNDS * Way::ALL.len() * settings.workers.len();
    let style = ProgressStyle::with_template("{prefix:26} {wide_bar} {pos} of {len}")?;
    let bar = ProgressBar::new(steps as u64).with_style(style);
    let mut table = Table::new();
    table.load_preset(ASCII_MARKDOWN);
    let header = settings.workers.iter().map(|&workers| on_workers(workers));
    table.set_header(["limits by".to_owned()].into_iter().chain(header));
    let mut columns = Vec::new();
    for &workers in &settings.workers {
        columns.push(costs(settings, workers, &bar)?);
    }
    bar.finish_and_clear();
    for (i, way) in Way::ALL.iter().enumerate() {
        let cells = columns.iter().map(|rounds: &Vec<Vec<Cost>>| {
            let rate = median(rounds.iter().map(|round| round[i].rate));
            format!("{rate:.0} ({:.2})", cpu_beside(rounds, *way, Way::NoLimits))
        });
        table.add_row([way.name().to_owned()].into_iter().chain(cells));
    }
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    println!("{table}\n");
    println!(
        "In brackets: the CPU time of an operation, of its server too, divided by that\n\
         without limits. The nearer to 1, the less the limits cost.\n"
    );
    let beside = |other| in_words(cpu_beside(&columns[0], Way::Deadline, other), 1.0);
    println!(
        "What it means: on {}, an operation with a deadline takes CPU\n\
         time: {} one with a timer and a token by hand, and\n{} one without limits.",
        on_workers(settings.workers[0]),
        beside(Way::WithToken),
        beside(Way::NoLimits)
    );
    Ok(())
}

fn on_workers(workers: usize) -> String {
    if workers == 1 { "1 worker".into() } else { format!("{workers} workers") }
}

/// The CPU time of an operation, divided by that of the `other` way in the same round.
fn cpu_beside(rounds: &[Vec<Cost>], way: Way, other: Way) -> f64 {
    median(rounds.iter().map(|round| cost_of(round, way).cpu / cost_of(round, other).cpu))
}

fn cost_of(round: &[Cost], way: Way) -> &Cost {
    let place = Way::ALL.iter().position(|it| *it == way).expect("it is one of all");
    &round[place]
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// What operations cost.
struct Cost {
    /// How many there were in a second.
    rate: f64,
    /// The CPU time of one, in seconds.
    cpu: f64,
}

/// The costs of all ways, by round.
fn costs(settings: &Settings, workers: usize, bar: &ProgressBar) -> Result<Vec<Vec<Cost>>, Box<dyn Error>> {
    let runtime = Builder::new_multi_thread().worker_threads(workers).enable_all().build()?;
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let mut costs = Vec::new();
        // In turn, so that a noisy machine disturbs all alike.
        for way in Way::ALL {
            bar.set_prefix(way.name());
            costs.push(runtime.block_on(async {
                if settings.memory {
                    cost(settings, way, in_memory(settings.connections)).await
                } else {
                    cost(settings, way, over_loopback(settings.connections).await?).await
                }
            })?);
            bar.inc(1);
        }
        rounds.push(costs);
    }
    Ok(rounds)
}

async fn cost<S: Stream>(
    settings: &Settings,
    way: Way,
    connections: Vec<Connection<S>>,
) -> Result<Cost, Box<dyn Error>> {
    let wheel = time::wheel();
    let armed = wheel.stats().armed;
    let (start, cpu) = (Instant::now(), cpu_time()?);
    let until = start + Duration::from_millis(settings.time);
    let mut clients = JoinSet::new();
    for connection in connections {
        let wheel = wheel.clone();
        clients.spawn(async move { way.operate(&wheel, connection, until).await });
    }
    let mut operations = 0;
    while let Some(client) = clients.join_next().await {
        operations += client??;
    }
    check(settings, way, &wheel, operations, wheel.stats().armed - armed)?;
    let count = operations as f64;
    Ok(Cost { rate: count / start.elapsed().as_secs_f64(), cpu: (cpu_time()? - cpu).as_secs_f64() / count })
}

/// Whether the wheel saw the timers of the way, and none elapsed.
fn check(
    settings: &Settings,
    way: Way,
    wheel: &TimingWheel,
    operations: u64,
    armed: u64,
) -> Result<(), String> {
    let is_right = match way {
        Way::NoLimits | Way::Tokio => armed == 0,
        // Nearly each operation waits for its server.
        Way::ByName | Way::Deadline => armed >= operations / 2,
        // One for each connection.
        Way::ByHand | Way::WithToken => (1..=settings.connections as u64).contains(&armed),
    };
    if !is_right {
        return Err(format!("{}: the wheel saw {armed} timers for {operations} operations", way.name()));
    }
    match wheel.stats().fired {
        0 => Ok(()),
        fired => Err(format!(
            "{fired} limits of {EACH:?} elapsed: this machine was too busy for this example; nothing is wrong with the timers"
        )),
    }
}
