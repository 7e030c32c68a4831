//! Runs the tasks on a wheel, and checks the wheel meanwhile.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use fastrand::Rng;
use indicatif::{HumanCount, HumanDuration, ProgressBar, ProgressStyle};
use timingwheel::TimingWheel;
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use crate::books::Books;
use crate::checks::Checks;
use crate::load::{User, kinds};
use crate::settings::Settings;
use crate::{report, stalls};

/// How long the tasks may take for what they are at when the time is up: none waits for a timer for so long.
const LAST_TIMERS_WITHIN: Duration = Duration::from_secs(60);

pub(crate) fn main() -> ExitCode {
    crate::machine::watch();
    let problems = soak(Settings::parse()).unwrap_or_else(|words| vec![words]);
    crate::machine::verdict(&problems)
}

/// Runs it, and returns what does not hold.
fn soak(settings: Settings) -> Result<Vec<String>, String> {
    let runtime = Builder::new_multi_thread()
        .worker_threads(settings.workers)
        .enable_all()
        .build()
        .map_err(|error| format!("no runtime: {error}"))?;
    println!("{settings}\n");
    let books = Arc::new(Books::new(settings.workers));
    let result = runtime.block_on(run(&settings, &books));
    // Workers that stall are not waited for.
    runtime.shutdown_background();
    let checks = result?;
    Ok(report::print(&settings, &books, checks))
}

/// Runs all tasks to the end, and checks meanwhile. The checks keep broken promises; an error ends the run.
async fn run(settings: &Settings, books: &Arc<Books>) -> Result<Checks, String> {
    let wheel = TimingWheel::builder().build().map_err(|error| format!("no wheel: {error}"))?;
    let start = Instant::now();
    let end = start + settings.length();
    let mut users = JoinSet::new();
    for (number, kind) in (0..settings.tasks).zip(kinds(settings.workers)) {
        let random = Rng::with_seed(settings.seed + number);
        let user = User { wheel: wheel.clone(), books: books.clone(), random, end };
        users.spawn(user.live(kind));
    }
    users.spawn(stalls::stall(settings.workers, books.clone(), settings.seed, end));

    let mut progress = Progress::start(settings);
    let mut checks = Checks::new(settings);
    while Instant::now() < end {
        sleep_until(end.min(Instant::now() + settings.between_checks())).await;
        checks.check(start.elapsed(), &wheel, books).await;
        progress.show(start.elapsed(), &checks, books);
    }
    progress.finish();

    let joined = timeout(LAST_TIMERS_WITHIN, async {
        while let Some(user) = users.join_next().await {
            user.map_err(|error| format!("a task failed: {error}"))?;
        }
        Ok::<(), String>(())
    });
    match joined.await {
        Ok(result) => result?,
        Err(_elapsed) => return Err(format!("{} tasks wait in vain for their timers", users.len())),
    }
    checks.check_at_rest(&wheel, books);
    Ok(checks)
}

/// A bar on a terminal, and a line now and then elsewhere.
enum Progress {
    Bar(ProgressBar),
    Lines,
}

impl Progress {
    fn start(settings: &Settings) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self::Lines;
        }
        let style = ProgressStyle::with_template("{wide_bar} {msg}").expect("a correct template");
        Self::Bar(ProgressBar::new(settings.length().as_secs()).with_style(style))
    }

    fn show(&mut self, elapsed: Duration, checks: &Checks, books: &Books) {
        let resident = checks.memory.now.map(|bytes| format!(", {}", report::mib(bytes))).unwrap_or_default();
        let state = format!(
            "{} timers, {} early{resident}",
            HumanCount(checks.last.armed),
            HumanCount(books.early.get())
        );
        match self {
            Self::Bar(bar) => {
                bar.set_message(state);
                bar.set_position(elapsed.as_secs());
            }
            Self::Lines => eprintln!("{}: {state}", HumanDuration(elapsed)),
        }
    }

    fn finish(self) {
        if let Self::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}
