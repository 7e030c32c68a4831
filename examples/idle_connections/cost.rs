//! The cost of timers of idle connections: of exact ones, and of ones that may be late.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use comfy_table::presets::ASCII_MARKDOWN;
use comfy_table::{CellAlignment, Table};
use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use timingwheel::TimingWheel;
use timingwheel_examples::{Lateness, cpu_time};
use tokio::io::{AsyncReadExt, duplex};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

/// On which nobody ever says anything. They have no sockets, so that their timers are what costs.
const CONNECTIONS: usize = 2_000;

/// In limits: until all wait at different times, and for how long they are watched then.
const SETTLES: u32 = 2;
const WATCHED: u32 = 3;

struct Cost {
    timeouts: u64,
    turns: u64,
    /// From one place of the wheel to another.
    moved: u64,
    cpu: Duration,
    lateness: Arc<Lateness>,
}

/// Measures both kinds one after the other, prints their table, and returns what does not add up.
pub(crate) async fn compare(limit: Duration, tolerance: Duration) -> Result<Vec<String>, Box<dyn Error>> {
    println!(
        "\nThe timers alone, of {} connections that are always silent.\n",
        HumanCount(CONNECTIONS as u64)
    );
    let style = ProgressStyle::with_template("{wide_bar} {msg} timers")?;
    let bar = ProgressBar::new((2 * (SETTLES + WATCHED) * limit).as_millis().try_into()?).with_style(style);
    bar.set_message("exact");
    let exact = measure(limit, None, &bar).await?;
    bar.set_message("tolerant");
    let tolerant = measure(limit, Some(tolerance), &bar).await?;
    bar.finish_and_clear();

    let mut table = Table::new();
    table.load_preset(ASCII_MARKDOWN);
    table.set_header(["timers", "fired", "moved", "turns", "CPU time", "late: half", "all within"]);
    let millis = |time: Duration| format!("{:.2} ms", time.as_secs_f64() * 1e3);
    for (name, cost) in [("exact", &exact), ("tolerant", &tolerant)] {
        let late = |quantile| millis(cost.lateness.quantile(quantile));
        let [timeouts, moved, turns] =
            [cost.timeouts, cost.moved, cost.turns].map(|count| HumanCount(count).to_string());
        table.add_row([name.into(), timeouts, moved, turns, millis(cost.cpu), late(0.5), late(1.0)]);
    }
    let saved = |tolerant: f64, exact: f64| format!("{:.0} %", 100.0 * (1.0 - tolerant / exact));
    let turns = saved(tolerant.turns as f64, exact.turns as f64);
    let cpu = saved(tolerant.cpu.as_secs_f64(), exact.cpu.as_secs_f64());
    table.add_row(["saved", "", "", &turns, &cpu]);
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    println!(
        "{table}\n\nWhat it means: timers that may be late wait for their neighbours, so the wheel\n\
         is turned less often. `late` is what that costs."
    );

    let mut problems = Vec::new();
    for (name, cost) in [("exact", &exact), ("tolerant", &tolerant)] {
        let early = cost.lateness.early.get();
        if cost.timeouts == 0 || early > 0 {
            problems.push(format!("{name} timers: {} fired, and {early} reads were early", cost.timeouts));
        }
    }
    if tolerant.moved > 0 {
        problems.push(format!("{} tolerant timers moved", tolerant.moved));
    }
    if tolerant.turns >= exact.turns {
        problems.push(format!(
            "the wheel was turned {} times, and not less than {}",
            tolerant.turns, exact.turns
        ));
    }
    Ok(problems)
}

async fn measure(
    limit: Duration,
    tolerance: Option<Duration>,
    bar: &ProgressBar,
) -> Result<Cost, Box<dyn Error>> {
    let wheel = TimingWheel::new();
    let lateness = Arc::<Lateness>::default();
    let mut connections = JoinSet::new();
    for _ in 0..CONNECTIONS {
        connections.spawn(wait_in_vain(wheel.clone(), limit, tolerance, lateness.clone()));
    }
    pass(SETTLES * limit, bar).await?;
    let (before, cpu) = (wheel.stats(), cpu_time()?);
    pass(WATCHED * limit, bar).await?;
    let (stats, cpu) = (wheel.stats().since(&before), cpu_time()? - cpu);
    if let Some(ended) = connections.try_join_next() {
        ended?.map_err(|error| error as Box<dyn Error>)?;
    }
    connections.shutdown().await;
    Ok(Cost { timeouts: stats.fired, turns: stats.turns, moved: stats.cascaded, cpu, lateness })
}

/// Reads again and again from a connection that is silent, by limits of one to two times `limit`, so that reads of
/// different connections do not fall into step.
async fn wait_in_vain(
    wheel: TimingWheel,
    limit: Duration,
    tolerance: Option<Duration>,
    lateness: Arc<Lateness>,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let (_peer, stream) = duplex(1);
    let mut guard = wheel.idle_guard(stream);
    if let Some(tolerance) = tolerance {
        guard = guard.with_tolerance(tolerance);
    }
    loop {
        let limit = limit.mul_f64(1.0 + fastrand::f64());
        guard.set_read_limit(Some(limit));
        let start = Instant::now();
        if guard.read_u8().await.is_ok() {
            return Err("there was a byte, though nobody sent one".into());
        }
        lateness.note(start + limit);
    }
}

/// Lets time pass.
async fn pass(time: Duration, bar: &ProgressBar) -> Result<(), Box<dyn Error>> {
    let (start, from) = (Instant::now(), bar.position());
    while start.elapsed() < time {
        sleep(time.saturating_sub(start.elapsed()).min(Duration::from_millis(100))).await;
        bar.set_position(from + u64::try_from(start.elapsed().min(time).as_millis())?);
    }
    Ok(())
}
