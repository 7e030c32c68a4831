//! What do timers cost on a wheel, how late are they, and what do others take for the same?
//!
//! `cargo bench` runs every case and ends each with a table; `cargo bench -- --help` tells the rest. Each case runs in
//! a process of its own, so that the caches, the memory and the runtimes of one do not disturb the next.

mod against_tokio;
mod by_name;
mod connections;
mod deadline;
mod jobs;
mod profiles;
mod purgatory;
mod rivals;
mod sides;
mod structures;
mod support;
mod tolerance;
mod under_load;

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use support::{Case, Kept, Report, Scale, describe, page, run_here, run_in_child};

/// The crates that cases compare, whose versions a report names.
const COMPARED: &[&str] =
    &["timingwheel", "tokio", "tokio-util", "async-io", "futures-timer", "pingora-timeout"];

fn cases() -> Vec<Case> {
    [
        // First, as what users call stands first in the report.
        by_name::cases(),
        against_tokio::cases(),
        under_load::cases(),
        connections::cases(),
        deadline::cases(),
        jobs::cases(),
        tolerance::cases(),
        profiles::cases(),
        rivals::cases(),
        purgatory::cases(),
        structures::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Benchmarks of timers on a wheel against others.
///
/// Without `cargo bench`, as under `cargo test --benches`, each case runs at a tiny scale, only to see that it works.
#[derive(Debug, Parser)]
struct Args {
    /// Only the cases whose names contain one of these.
    names: Vec<String>,

    /// Lists the cases, and runs none.
    #[arg(long)]
    list: bool,

    /// Writes the tables, and bars of their ratios, to a folder of this one too, named after the processor: README.md and *.svg, and
    /// findings.json, which they are made from. Then the page that shows the reports of all processors side by side:
    /// benchmarks.md beside them, for `benches/report` docs/benchmarks.md. If it is relative, from the root of the
    /// repository. Takes about 25 minutes.
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,

    /// Measures nothing, and makes the reports in this folder anew from their findings.json, and the page.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["report", "list", "names"])]
    redraw: Option<PathBuf>,

    /// Given by `cargo bench`: full scale.
    #[arg(long, hide = true)]
    bench: bool,

    /// Runs this case in this process, and writes its findings to stdout.
    #[arg(long, hide = true, value_name = "NAME")]
    case: Option<String>,
}

impl Args {
    fn scale(&self) -> Scale {
        if self.bench { Scale::full() } else { Scale::test() }
    }

    fn wants(&self, case: &Case) -> bool {
        self.names.is_empty() || self.names.iter().any(|name| case.name.contains(name.as_str()))
    }
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    let all = cases();
    if let Some(name) = &args.case {
        let case = all.iter().find(|case| case.name == name).ok_or("no such case")?;
        return Ok(run_here(case, args.scale())?);
    }
    if let Some(directory) = args.redraw.as_deref().map(from_root) {
        for folder in fs::read_dir(&directory)? {
            let folder = folder?.path();
            if Kept::is_in(&folder) {
                Report::new(&Kept::read(&folder)?)?.write(&folder)?;
            }
        }
        return write_page(&directory);
    }
    let chosen: Vec<&Case> = all.iter().filter(|case| args.wants(case)).collect();
    if chosen.is_empty() {
        return Err(format!("no case has a name with {} in it", args.names.join(" or ")).into());
    }
    if args.list {
        chosen.iter().for_each(|case| println!("{:24} {}", case.name, case.question));
        return Ok(());
    }
    let report = args.report.as_deref().map(from_root);
    if args.scale().is_test() && report.as_deref().is_some_and(is_committed) {
        return Err("the committed report takes the full scale: run it by `cargo bench`".into());
    }
    let made_on = describe(COMPARED)?;
    let mut outcomes = Vec::new();
    for (number, case) in chosen.iter().enumerate() {
        let outcome = run_in_child(case, args.scale(), &format!("{}/{}", number + 1, chosen.len()))?;
        if !args.scale().is_test() {
            println!("{}", outcome.tables());
        }
        outcomes.push(outcome);
    }
    let left_out = all.iter().filter(|case| !args.wants(case)).map(|case| case.name.into()).collect();
    let kept = Kept { made_on, outcomes, left_out };
    if let Some(directory) = report {
        let folder = directory.join(kept.folder());
        // First, as what took so long shall not be lost if it cannot be drawn.
        kept.write(&folder)?;
        Report::new(&kept)?.write(&folder)?;
        write_page(&directory)?;
    } else {
        // Rendered nevertheless, to see that it works.
        Report::new(&kept)?;
        let page = fs::read_to_string(from_root(Path::new(BENCHMARKS)))?;
        if page::renew(&page, &page::read(&from_root(Path::new(REPORTS)))?)? != page {
            return Err(format!("{BENCHMARKS} is not what the reports say: take `--redraw {REPORTS}`").into());
        }
    }
    if args.scale().is_test() {
        println!("{} cases work", chosen.len());
    }
    Ok(())
}

/// Cargo starts benchmarks in the folder of their package.
fn from_root(directory: &Path) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(directory)
}

/// The reports that are committed, and the page that shows them side by side.
const REPORTS: &str = "benches/report";
const BENCHMARKS: &str = "docs/benchmarks.md";

/// Whether it is the folder of the reports that are committed.
fn is_committed(directory: &Path) -> bool {
    let committed = from_root(Path::new(REPORTS)).canonicalize();
    directory.canonicalize().ok().zip(committed.ok()).is_some_and(|(one, other)| one == other)
}

/// Writes what the reports in a folder say into the page.
fn write_page(directory: &Path) -> Result<(), Box<dyn Error>> {
    eprintln!("wrote {}", directory.display());
    let page = from_root(Path::new(BENCHMARKS));
    let renewed = page::renew(&fs::read_to_string(&page)?, &page::read(directory)?)?;
    // That of other reports stands beside them.
    let page = if is_committed(directory) { page } else { directory.join("benchmarks.md") };
    fs::write(&page, renewed)?;
    eprintln!("wrote {}", page.display());
    Ok(())
}
