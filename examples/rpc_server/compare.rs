//! Runs on one kind of timers and then on the other, and compares them.

use std::process::ExitCode;

use clap::Parser;
use timingwheel::TimingWheel;

use crate::run::{Outcome, run};
use crate::settings::{Settings, Side};
use crate::timers::TokioTime;
use crate::{checks, file_limit, machine, report};

pub(crate) fn main() -> ExitCode {
    machine::watch();
    match compare(Settings::parse().checked()) {
        Ok(code) => code,
        Err(words) => {
            eprintln!("error: {words}");
            ExitCode::FAILURE
        }
    }
}

fn compare(settings: Settings) -> Result<ExitCode, String> {
    let settings = file_limit::fit(settings)?;
    println!("{settings}");

    warm_up(&settings)?;
    let mut outcomes: Vec<Outcome> = Vec::new();
    if settings.runs(Side::Wheel) {
        let start = || TimingWheel::builder().build().map_err(|error| format!("no wheel: {error}"));
        outcomes.push(run("timing wheel", &settings, start)?);
    }
    if settings.runs(Side::Tokio) {
        outcomes.push(run("tokio::time", &settings, || Ok(TokioTime))?);
    }

    report::print(&outcomes);
    let problems: Vec<String> = outcomes.iter().flat_map(checks::problems).collect();
    if problems.is_empty() {
        println!("\n{}", checks::ALL_HOLD);
    }
    Ok(machine::verdict(&problems))
}

/// The first run of a process pays for the kernel's memory for so many connections, and for the allocator's. So a run that
/// is not counted comes before, however short, on tokio's timers: if the order favours one side, it is tokio's.
fn warm_up(settings: &Settings) -> Result<(), String> {
    run("warming up", &settings.to_warm_up(), || Ok(TokioTime)).map(drop)
}
