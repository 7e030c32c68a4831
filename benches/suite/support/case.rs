//! A case, and the process in which it runs.

use std::error::Error;
use std::io::{BufRead, BufReader, IsTerminal, Read};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use serde::{Deserialize, Serialize};

use super::table::Findings;
use super::table::Scale;

pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) question: &'static str,
    pub(crate) run: fn(Scale) -> Findings,
}

impl Case {
    pub(crate) const fn new(name: &'static str, question: &'static str, run: fn(Scale) -> Findings) -> Self {
        Self { name, question, run }
    }
}

/// A case that ran, and what it found.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) name: String,
    pub(crate) question: String,
    pub(crate) findings: Findings,
}

impl Outcome {
    /// All its tables as Markdown.
    pub(crate) fn tables(&self) -> String {
        let tables: Vec<String> = self.findings.tables.iter().map(ToString::to_string).collect();
        format!("## {}\n\n{}\n\n{}", self.name, self.question, tables.join("\n"))
    }
}

/// Runs a case in this process and hands its findings over: the other end of [`run_in_child`].
pub(crate) fn run_here(case: &Case, scale: Scale) -> serde_json::Result<()> {
    serde_json::to_writer(std::io::stdout(), &(case.run)(scale))
}

/// Runs a case in a process of its own. `place` says which of how many it is.
///
/// # Errors
/// If the process cannot be started, fails, or does not hand its findings over; with all that it wrote.
pub(crate) fn run_in_child(case: &Case, scale: Scale, place: &str) -> Result<Outcome, Box<dyn Error>> {
    let start = Instant::now();
    let bar = bar(place, case.name);
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--case", case.name]).stdout(Stdio::piped()).stderr(Stdio::piped());
    if !scale.is_test() {
        command.arg("--bench");
    }
    let mut child = command.spawn()?;
    let (mut stdout, stderr) = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
    // Both at once, so that neither pipe fills up.
    let stdout = thread::spawn(move || {
        let mut text = String::new();
        stdout.read_to_string(&mut text).map(|_| text)
    });
    let mut said = String::new();
    for line in BufReader::new(stderr).lines() {
        let line = line?;
        bar.set_message(line.clone());
        said += &line;
        said.push('\n');
    }
    let stdout = stdout.join().expect("reading does not panic")?;
    let status = child.wait()?;
    bar.finish_and_clear();
    if !status.success() {
        return Err(format!("{} failed with {status}:\n{said}{stdout}", case.name).into());
    }
    let findings = serde_json::from_str(&stdout).map_err(|error| {
        format!("{} handed over what is no findings ({error}):\n{said}{stdout}", case.name)
    })?;
    if !std::io::stderr().is_terminal() {
        eprintln!("{place} {}: {:.1} s", case.name, start.elapsed().as_secs_f64());
    }
    Ok(Outcome { name: case.name.into(), question: case.question.into(), findings })
}

/// Shown on a terminal only.
fn bar(place: &str, name: &'static str) -> ProgressBar {
    const REDRAW: Duration = Duration::from_millis(200);
    let style = ProgressStyle::with_template("{prefix} {elapsed} {msg}").expect("a correct template");
    let bar = ProgressBar::new_spinner().with_style(style).with_prefix(format!("{place} {name}"));
    bar.enable_steady_tick(REDRAW);
    bar
}
