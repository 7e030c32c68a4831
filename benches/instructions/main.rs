//! How many instructions, accesses to memory, misses and allocations does an operation take, and has that changed?
//!
//! | command | what it does |
//! |---|---|
//! | `cargo bench --bench instructions` | prints our counts beside tokio's, and where ours are not those of `baseline.md` |
//! | `cargo bench --bench instructions -- --check` | the same, and fails if they are not |
//! | `cargo bench --bench instructions -- --renew` | writes our counts to `baseline.md` |
//! | `cargo test --benches` | does each operation without counting, only to see that it works |
//!
//! With `--package timingwheel-instructions --no-default-features --features timerfd` tokio is built without `test-util`, as for
//! a server, and the baseline is `baseline_without_test_util.md`.
//!
//! Callgrind counts instructions, accesses and misses, DHAT allocations, and gungraun runs both. So it takes valgrind and
//! `gungraun-runner`. Where they are missing, it says so; that is an error only with `--check` and `--renew`.

mod baseline;
mod by_name;
mod core;
mod counts;
mod delay_queue;
mod harness;
mod operation;
mod operations;
mod table;
mod timers;
mod tools;

use std::process::ExitCode;

use baseline::Baseline;
use counts::Counts;
use operation::Operation;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let has = |arg: &str| args.iter().any(|given| given == arg);
    if harness::is_for_gungraun(&args) {
        harness::run();
        return ExitCode::SUCCESS;
    }
    if !has("--bench") || has("--test") {
        operations::all().for_each(Operation::do_uncounted);
        return ExitCode::SUCCESS;
    }
    let is_needed = has("--check") || has("--renew");
    if let Err(missing) = tools::look_for() {
        eprintln!("Instructions are not counted: {missing}.");
        return if is_needed { ExitCode::FAILURE } else { ExitCode::SUCCESS };
    }
    match counts::count().and_then(|counts| use_counts(&counts, has("--renew"))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            if is_needed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
        }
    }
}

/// Fails with all that is wrong with the counts.
fn use_counts(counts: &[(&'static Operation, Counts)], renew: bool) -> Result<(), String> {
    println!("{}", table::beside_tokio(counts));
    let ours =
        counts.iter().filter(|(operation, _)| operations::ours().any(|ours| std::ptr::eq(ours, *operation)));
    let now =
        Baseline::new(tools::compiler(), ours.map(|(operation, counts)| (operation.name.into(), *counts)));
    let mut faults = now.allocations();
    if !renew {
        faults.extend(now.differences(&Baseline::read()?));
    } else if faults.is_empty() {
        now.write()?;
    }
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n")) }
}
