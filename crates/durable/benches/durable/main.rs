//! What do durable timers cost beside the engine that stores them, and beside a wheel without a store?
//!
//! `cargo bench -p timingwheel-durable-programs`. With `-- --short` it only sees that all work. `-- NAME` runs the rows whose name
//! has that in it. Each row is a ratio of medians of pairs: ours and the other in turns, so that what slows the machine
//! slows both. Files are in `TMPDIR`, on whatever disk that is.

mod far;
mod late;
mod rates;
mod raw;
mod restart;
mod rig;

use std::env;
use std::process::ExitCode;

/// How large a run is.
#[derive(Clone, Copy)]
pub(crate) struct Scale {
    pub(crate) pairs: usize,
    /// Timers for a drain.
    pub(crate) drain: usize,
    /// Rounds of a thousand saves.
    pub(crate) rounds: usize,
    /// Saves alone.
    pub(crate) alone: usize,
    /// Seconds of timers, and how many there are in one.
    pub(crate) late: (usize, usize),
    /// Stored, at a restart.
    pub(crate) restart: usize,
    /// Stored, for the memory of one.
    pub(crate) far: usize,
}

const WHOLE: Scale = Scale {
    pairs: 7,
    drain: 100_000,
    rounds: 20,
    alone: 60,
    late: (4, 10_000),
    restart: 1_000_000,
    far: 10_000_000,
};

const SHORT: Scale =
    Scale { pairs: 1, drain: 2_000, rounds: 2, alone: 3, late: (1, 200), restart: 2_000, far: 5_000 };

/// What a row is about, what it takes, and what the target is: a ratio, at least or at most.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) ours: String,
    pub(crate) other: String,
    pub(crate) ratio: Option<f64>,
    pub(crate) target: &'static str,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).filter(|argument| argument != "--bench").collect();
    // `cargo test --benches` runs it, too, to see that it works.
    let is_short = arguments.iter().any(|argument| argument == "--short" || argument == "--test")
        || !env::args().any(|argument| argument == "--bench");
    let wanted = arguments.iter().find(|argument| !argument.starts_with("--"));
    let scale = if is_short { SHORT } else { WHOLE };
    type Measure = fn(Scale) -> Row;
    let rows: [(&str, Measure); 8] = [
        ("drain", rates::drain),
        ("saves", rates::saves),
        ("alone", rates::alone),
        ("late", late::late),
        ("restart", restart::restart),
        ("memory", far::memory),
        ("load", far::load),
        ("idle", far::idle),
    ];
    println!(
        "| {:<38} | {:>12} | {:>12} | {:>5} | {:>7} |",
        "median of pairs", "durable", "beside", "ratio", "target"
    );
    println!("|{:-<40}|{:->14}|{:->14}|{:->7}|{:->9}|", "", "", "", "", "");
    for (name, row) in rows {
        if wanted.is_none_or(|wanted| name.contains(wanted.as_str())) {
            let Row { name, ours, other, ratio, target } = row(scale);
            let ratio = ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}"));
            println!("| {name:<38} | {ours:>12} | {other:>12} | {ratio:>5} | {target:>7} |");
        }
    }
    ExitCode::SUCCESS
}
