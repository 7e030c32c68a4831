//! How do I bound a call, give it more time while it shows progress, and see that the work behind it stopped? What if
//! it does not?
//!
//! `cargo run --release -p timingwheel-examples --example timeout`, or with `-- --help` for the settings and
//! `-- --short` for a quick look.
//!
//! A simple limit is `wheel.timeout(limit, call).await`. The functions below have the other cases, to copy. The rest runs
//! eight cases, each with many calls at once on a wheel of its own. The work behind the calls waits on tokio's timers, so
//! the wheel counts only the limits. The closing table shows how the calls of each case ended, that each took at most one
//! timer however often its deadline moved, and that no work was left behind. One case shows a mistake: if only the wait for
//! a task is cut off, the task goes on. If a case went otherwise, the program says so and exits with 1.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::error::Error;
use std::iter::repeat_n;
use std::panic::resume_unwind;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::Parser;
use comfy_table::presets::ASCII_MARKDOWN;
use comfy_table::{CellAlignment, Table};
use futures::future::join_all;
use indicatif::HumanCount;
use timingwheel::{Elapsed, TimingWheel};
use timingwheel_examples::{conclude, unless_too_busy, whole};
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinSet, yield_now};
use tokio::time::{Instant, sleep};

/// Awaits `call`, which may take as long as it likes, but not longer than `limit` without progress.
async fn while_it_progresses<F: Future>(
    wheel: &TimingWheel,
    limit: Duration,
    progress: &Notify,
    call: F,
) -> Result<F::Output, Elapsed> {
    let mut call = pin!(wheel.timeout(limit, call));
    loop {
        tokio::select! {
            biased; // Progress made in time counts, even if it is seen late.
            () = progress.notified() => call.as_mut().reset_after(limit),
            result = &mut call => return result,
        }
    }
}

/// Runs `work` in a task of its own. A task outlives the future that waits for it, unless it is aborted.
async fn in_a_task(
    wheel: &TimingWheel,
    limit: Duration,
    work: impl Future<Output = ()> + Send + 'static,
) -> Result<(), Elapsed> {
    let mut tasks = JoinSet::new();
    tasks.spawn(work);
    let result = wheel.timeout(limit, tasks.join_next()).await;
    // Aborts it and waits until it is gone. Dropping the set aborts it too, but does not wait.
    tasks.shutdown().await;
    match result? {
        Some(Err(error)) if error.is_panic() => resume_unwind(error.into_panic()),
        _ => Ok(()),
    }
}

/// Awaits `call` with a limit, if the wheel has room for one more timer. Else it goes without.
async fn if_there_is_room<F: Future>(
    wheel: &TimingWheel,
    limit: Duration,
    call: F,
) -> Result<F::Output, Elapsed> {
    match wheel.try_sleep(limit) {
        Ok(limit) => limit.limiting(call).await,
        Err(_full) => Ok(call.await),
    }
}

// Calls with a limit, and whether the work behind each stops.

/// Calls with a limit: how they end, and whether the work behind them does.
#[derive(Parser)]
#[command(name = "timeout")]
struct Settings {
    /// How many calls each case makes, from 1 to 10,000
    #[arg(long, value_name = "NUMBER", default_value = "500", value_parser = whole(1..=10_000_u64))]
    #[arg(default_value_if("short", "true", "100"), allow_negative_numbers = true)]
    calls: u64,

    /// After how many milliseconds without an answer, or without progress, a call is cut off, from 50 to 10,000
    #[arg(long, value_name = "MS", default_value = "400", value_parser = whole(50..=10_000_u64))]
    #[arg(default_value_if("short", "true", "200"), allow_negative_numbers = true)]
    limit: u64,

    /// A quick look: fewer calls and a shorter limit, unless they are given
    #[arg(long)]
    short: bool,
}

/// Held by work for as long as it is alive: a future that is dropped drops what it holds.
struct Alive;

static STARTED: AtomicU64 = AtomicU64::new(0);
static ALIVE: AtomicU64 = AtomicU64::new(0);

impl Alive {
    fn new() -> Self {
        STARTED.fetch_add(1, Ordering::SeqCst);
        ALIVE.fetch_add(1, Ordering::SeqCst);
        Self
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        ALIVE.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn work(time: Duration) {
    let _alive = Alive::new();
    sleep(time).await;
}

/// Work in parts, each of which takes its time and is reported.
async fn download(parts: impl Iterator<Item = Duration>, progress: &Notify) {
    let _alive = Alive::new();
    for time in parts {
        sleep(time).await;
        progress.notify_one();
    }
}

/// As [`in_a_task`], and wrong: what is cut off is the wait, not the work. Gives back what could have stopped it.
async fn in_a_task_left_behind(
    wheel: &TimingWheel,
    limit: Duration,
    work: impl Future<Output = ()> + Send + 'static,
    left_behind: &Cell<Vec<AbortHandle>>,
) -> Result<(), Elapsed> {
    let task = tokio::spawn(work);
    let mut handles = left_behind.take();
    handles.push(task.abort_handle());
    left_behind.set(handles);
    wheel.timeout(limit, task).await.map(drop)
}

fn end_of<T>(result: Result<T, Elapsed>) -> &'static str {
    if result.is_ok() { "answered" } else { "cut off" }
}

/// The closing table, and what is wrong in it.
struct Report {
    table: Table,
}

impl Report {
    /// Makes `calls` on `wheel`, all at once: they should all come to the same `end`, take so many `timers`, and leave
    /// so much work behind.
    async fn case<T>(
        &mut self,
        name: &str,
        wheel: &TimingWheel,
        (end, timers, left): (&str, u64, u64),
        calls: impl Iterator<Item: Future<Output = Result<T, Elapsed>>>,
    ) {
        let start = Instant::now();
        let results = join_all(calls).await;
        let took = format!("{:.3} s", start.elapsed().as_secs_f64());
        let armed = wheel.stats().armed;
        let (started, alive) = (STARTED.swap(0, Ordering::SeqCst), ALIVE.load(Ordering::SeqCst));

        let calls = results.len() as u64;
        let mut ends = BTreeMap::new();
        results.into_iter().for_each(|result| *ends.entry(end_of(result)).or_insert(0) += 1);
        if !ends.keys().eq([&end]) || armed != timers || started != calls || alive != left {
            unless_too_busy(format!(
                "{name}: expected were {calls} {end}, {timers} timers, {calls} pieces of work started and {left} left"
            ));
        }
        let ends: Vec<String> =
            ends.iter().map(|(end, count)| format!("{} {end}", HumanCount(*count))).collect();
        let counts = [armed, started, alive].map(|count| HumanCount(count).to_string());
        self.table.add_row([name.into(), ends.join(", "), took].into_iter().chain(counts));
    }
}

async fn report(Settings { calls, limit, short: _ }: Settings) -> Result<Report, Box<dyn Error>> {
    let limit = Duration::from_millis(limit);
    let (quick, slow) = (limit / 20, limit * 20);
    let times = || 0..calls;
    let mut report = Report { table: Table::new() };
    report.table.load_preset(ASCII_MARKDOWN).set_header(["calls", "ended", "took", "timers", "work", "left"]);

    let wheel = TimingWheel::new();
    let case = times().map(|_| wheel.timeout(limit, work(quick)));
    report.case("quick", &wheel, ("answered", calls, 0), case).await;

    let wheel = TimingWheel::new();
    let case = times().map(|_| wheel.timeout(limit, work(slow)));
    report.case("slow", &wheel, ("cut off", calls, 0), case).await;

    let wheel = TimingWheel::new();
    let case = times().map(|_| in_a_task(&wheel, limit, work(slow)));
    report.case("slow, in a task", &wheel, ("cut off", calls, 0), case).await;

    let wheel = TimingWheel::new();
    let left_behind = Cell::default();
    let case = times().map(|_| in_a_task_left_behind(&wheel, limit, work(slow), &left_behind));
    report.case("slow, task left", &wheel, ("cut off", calls, calls), case).await;
    left_behind.take().iter().for_each(AbortHandle::abort);
    while ALIVE.load(Ordering::SeqCst) > 0 {
        yield_now().await;
    }

    for (name, end, last_part) in [("slow, with progress", "answered", quick), ("stalled", "cut off", slow)] {
        let wheel = TimingWheel::new();
        let case = times().map(async |_| {
            let progress = Notify::new();
            let call = download(repeat_n(quick, 30).chain([last_part]), &progress);
            while_it_progresses(&wheel, limit, &progress, call).await
        });
        report.case(name, &wheel, (end, calls, 0), case).await;
    }

    let room = calls.div_ceil(2);
    let wheel = TimingWheel::builder().max_pending(usize::try_from(room)?).build()?;
    let case = times().map(|_| if_there_is_room(&wheel, limit, work(quick)));
    report.case("quick, half fit", &wheel, ("answered", room, 0), case).await;

    let wheel = TimingWheel::new();
    let case = times().map(|_| wheel.timeout(limit, work(slow)));
    let shutdown = async {
        sleep(quick).await;
        wheel.shutdown()
    };
    let case = report.case("slow, shut down", &wheel, ("cut off", calls, 0), case);
    tokio::join!(case, shutdown);
    Ok(report)
}

/// The closing lines, which say what the table means.
const MEANING: &str = "\
What it means: a call takes one timer, however often its deadline moves, and its
work ends with it. The exception is `slow, task left`: a task goes on after the
future that waits for it is dropped, unless it is aborted. A limit is kept also
if the wheel is shut down meanwhile.";

/// Makes the calls, prints the closing table, and returns what is wrong on any machine: nothing.
async fn run(settings: Settings) -> Result<Vec<String>, Box<dyn Error>> {
    println!("{} calls in each case, with a limit of {} ms.\n", HumanCount(settings.calls), settings.limit);
    let mut report = report(settings).await?;
    report.table.column_iter_mut().skip(2).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    println!(
        "{}\n\ntimers: how many the wheel saw. work: how many pieces were begun, and are left.",
        report.table
    );
    println!("{MEANING}");
    Ok(Vec::new())
}

#[tokio::main]
async fn main() -> ExitCode {
    conclude(run(Settings::parse())).await
}
