//! What do timers cost a server with thousands of connections, how late do they fire, and does the work behind a
//! request that ran out of time really stop?
//!
//! `cargo run --release --example rpc_server`, or with `-- --help` for the settings and `-- --short` for a quick
//! look.
//!
//! A TCP server and its clients run in this process. Each connection has an idle timer that moves with every
//! request, each request runs under a timeout, and the work within it waits in steps: all on a [`TimingWheel`],
//! then once more on `tokio::time`. At the end a table has both side by side, and the program checks its own
//! bookkeeping: if something does not add up it says what, and exits with 1.
//!
//! The CPU time and the context switches are those of server, clients and their connections together. The runs follow
//! each other, so a machine that is busy otherwise disturbs one or the other.

mod books;
mod checks;
mod client;
mod file_limit;
mod load;
mod progress;
mod protocol;
mod report;
mod run;
mod server;
mod settings;
mod spent;
mod timers;
mod watched;
mod work;

use std::process::ExitCode;

use clap::Parser;
use timingwheel::TimingWheel;

use crate::run::{Outcome, run};
use crate::settings::{Settings, Side};
use crate::timers::TokioTime;

fn main() -> ExitCode {
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

    // The wheel goes first: if the second run gains by warm caches and pools, it is tokio's.
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
        return Ok(ExitCode::SUCCESS);
    }
    for problem in &problems {
        eprintln!("error: {problem}");
    }
    Ok(ExitCode::FAILURE)
}
